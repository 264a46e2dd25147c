/* What the store's files share. Private to store; store.c tells who owns what. */
#ifndef STORE_STATE_H
#define STORE_STATE_H

#include <nats/nats.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/inbox.h"
#include "base/slab.h"
#include "store/store.h"

enum {
    STORE_MAGIC = 0x53544f52,
    BUCKETS_MAX = 16,
    NAME_SIZE = 65,
    WHY_SIZE = 256,
    INBOX_SIZE = 512,
    REPORTS_MAX = 64,                /* words about buckets that wait for the loop */
    WATCH_POSTS_MAX = 4096,          /* watch events that wait for the loop */
    WATCH_POST_BYTES_MAX = 16 << 20, /* and their keys and values */
    LOOK_MIN_MS = 250,
    LOOK_MAX_MS = 5000,
    CONNECT_WAIT_MAX_MS = 1000,
    LIBRARY_END_MS = 1000,
    LINK_MS = 250,       /* how often the link's status is looked at while all is well */
    CONNECTING_MS = 100, /* and while it is coming up */
    DESTROY_MS = 2000,
};

struct bucket {
    struct store_bucket wanted;
    char name[NAME_SIZE];
    /* the caretaker's */
    enum store_bucket_state state;
    char why[WHY_SIZE];
    bool unsaid;  /* state or why has changed and is not posted yet */
    mono look_at; /* when to look next; MONO_NEVER: no need */
    int wait_ms;  /* the pause after the next failure */
    /* under the mutex */
    bool asked; /* somebody wants it looked at */
    bool owed;  /* the loop does, and is told even where nothing has changed */
    bool open;  /* it is there, as far as is known */
};

/* Something on its way to the loop. `deliver` runs there, frees it, and tells nobody once the store
 * is stopping. */
struct post {
    struct inbox_item item;
    void (*deliver)(struct store *store, struct post *post);
};

struct request;
TAILQ_HEAD(request_list, request);

/* One nats.c connection. The caretaker makes and ends it; other threads borrow it, and it waits for
 * them before the end. nats.c may still be handing a message to a subscription that has
 * been taken back, so the link keeps each one; see watch.c for when it lets go. */
struct link {
    struct store *store;
    natsConnection *nc;
    jsCtx *js;
    char inbox[INBOX_SIZE];                /* unguessable, under the store's own */
    natsSubscription *answers;             /* to requests, at <inbox>.r.* */
    natsSubscription *pushed[BUCKETS_MAX]; /* the watchers', of their last readings */
    /* under the mutex */
    unsigned borrowed;
    bool answers_ended;   /* no callback of `answers` runs or will */
    bool closed;          /* no callback of `nc` runs or will, and its threads have ended */
    bool broken;          /* a write stopped halfway: good for nothing more */
    char error[WHY_SIZE]; /* the last that NATS said; "" is nothing */
};

struct store {
    unsigned magic;
    struct store_connection connection; /* copies */
    struct store_events events;
    void *arg;
    struct inbox *inbox;
    struct bucket buckets[BUCKETS_MAX];
    unsigned bucket_count;
    pthread_t threads[2 + BUCKETS_MAX];
    unsigned thread_count; /* the loop's */
    bool started;          /* the loop's */

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* something for the caretaker, the watchers or store_destroy */
    pthread_cond_t work;    /* something for the sender */
    pthread_cond_t room;    /* for watch events */
    /* under the mutex; only the caretaker writes the next three */
    struct link *link;
    bool up;
    uint64_t epoch;        /* one for each time that the link came up or went down */
    char denied[WHY_SIZE]; /* what NATS last refused on this link; "" is nothing */
    bool stopping, orphan;
    unsigned running; /* threads */
    unsigned reports, watch_posts;
    size_t watch_bytes;
    /* under the mutex: requests.c */
    struct slab *requests;
    struct deadlines *deadlines;
    struct request_list queued, sent;
    unsigned sent_count;
    size_t request_bytes;
    bool sender_waits;

    /* the caretaker's */
    uint64_t reconnects; /* of the connection, as last seen */
    mono connect_at;     /* when to try a new connection */
    int connect_wait_ms;
};

/* store.c */
/* Mutex held. False: stopping, the post is the caller's again. */
bool store_post(struct store *store, struct post *post);
/* Mutex held: asks the caretaker to look at the bucket. */
void store_ask(struct store *store, struct bucket *b);
bool store_is_stopping(struct store *store);
/* Mutex held. A longer wait than an hour ends after that. */
void store_wait(struct store *store, pthread_cond_t *cond, mono until);
struct bucket *store_bucket_of(struct store *store, const char *name);
/* Each thread's last call. */
void store_thread_ends(struct store *store);

/* link.c. All on the caretaker's thread except borrow and give_back (mutex held). */
/* What nats.c says of a failure of this thread's last call. */
void link_reason(natsStatus s, jsErrCode code, char why[WHY_SIZE]);
/* NULL: why says what was in the way. May block. */
struct link *link_create(struct store *store, char why[WHY_SIZE]);
/* Nobody can borrow it any more (store->link is not it). Waits for those who have it. Takes NULL.
 */
void link_destroy(struct link *link);
enum link_state {
    LINK_AWAY,
    LINK_UP,
    LINK_DEAD
}; /* away: nats.c is at it; dead: it has given up */
enum link_state link_look(struct link *link, char why[WHY_SIZE]); /* why: unless it is up */
uint64_t link_reconnects(const struct link *link);
struct link *link_borrow(struct store *store); /* NULL: not up */
void link_give_back(struct link *link);

/* requests.c */
wb_status requests_init(struct store *store);
void requests_fini(struct store *store);
void *requests_run(void *store); /* the sender's thread */
/* nats.c's callback for link->answers; the closure is the link. */
void requests_answer(natsConnection *nc, natsSubscription *sub, natsMsg *msg, void *link);

/* watch.c */
/* The thread of one watched bucket; `watch` is made by watch_create and freed by the thread. */
void *watch_create(struct store *store, struct bucket *bucket);
void *watch_run(void *watch);

#endif
