/* Heartbeats from hostile bytes.
 *
 * Both encodings become one view of a value (struct value): the type, the scalar, and for lists and
 * maps the library's node, which `each` walks. Everything that decides whether a heartbeat is good
 * stands once, behind that view: the table of fields, the ranges, the names. So msgpack and JSON
 * can't drift apart.
 *
 * Before a library sees a byte, its weak spots are closed: msgpack-c allocates what an array's
 * header claims, so msgpack_sane() first walks the bytes and holds every count against what is
 * really there, and bounds the depth; json_read() bounds depth and refuses NULs and bytes
 * that are not UTF-8.
 *
 * Decoding has two passes. The first takes scalars and remembers the containers (of a key given
 * twice the last wins; each must be good). The second knows all sizes, allocates one block, and
 * copies texts into it; the library's tree is then freed. Routers and adapters come out sorted and
 * without repeats.
 *
 * What it does not do: it knows no service or worker (these come from the subject), no clock, and
 * keeps nothing between calls: that absent adapters mean "unchanged" is the registry's business. */
#include "wire/heartbeat.h"

#include <math.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/heartbeat_fields.h"
#include "wire/json.h"
#include "wire/json_read.h"
#include "wire/name.h"
#include "wire/utf8.h"

#define AT(member) offsetof(struct heartbeat, member)
#define NAME(text)                                                                                 \
    {                                                                                              \
        (text), sizeof(text) - 1                                                                   \
    }

const char *const heartbeat_state_names[HB_STATE_COUNT] = {"ready", "busy", "draining", "leaving"};

const struct heartbeat_field heartbeat_fields[HF_COUNT] = {
    [HF_V] = {NAME("v"), HK_INT, AT(v), 1, 1, "the integer 1"},
    [HF_EPOCH] = {NAME("epoch"), HK_I64, AT(epoch), 0, 1LL << 53, "an integer, 0 to 2^53"},
    [HF_STATE] = {NAME("state"), HK_STATE, 0, 0, 0, "ready, busy, draining or leaving"},
    [HF_INTERVAL_MS] = {NAME("interval_ms"), HK_U32, AT(interval_ms), 100, 60000,
                        "an integer, 100 to 60000"},
    [HF_CAPACITY] = {NAME("capacity"), HK_U32, AT(capacity), 0, HEARTBEAT_COUNT_MAX,
                     "an integer, 0 to 2147483647"},
    [HF_INFLIGHT] = {NAME("inflight"), HK_U32, AT(inflight), 0, HEARTBEAT_COUNT_MAX,
                     "an integer, 0 to 2147483647"},
    [HF_INFLIGHT_BY] = {NAME("inflight_by"), HK_INFLIGHT_BY, 0, 0, 0,
                        "a map of at most 1024 router ids to 0..1000000"},
    [HF_QUEUED] = {NAME("queued"), HK_U32, AT(queued), 0, HEARTBEAT_COUNT_MAX,
                   "an integer, 0 to 2147483647"},
    [HF_WEIGHT] = {NAME("weight"), HK_U32, AT(weight), 1, 1000, "an integer, 1 to 1000"},
    [HF_CLASS] = {NAME("class"), HK_CLASS, 0, 0, 0, "text, up to 64 of [A-Za-z0-9_-]"},
    [HF_RANKS] = {NAME("ranks"), HK_RANKS, 0, 0, HEARTBEAT_RANKS_MAX,
                  "a count 0 to 4096, or the list 0..n-1"},
    [HF_ADAPTERS] = {NAME("adapters"), HK_ADAPTERS, 0, 0, 0,
                     "a list of at most 1024 names of printable ASCII"},
    [HF_ADAPTER_SLOTS] = {NAME("adapter_slots"), HK_U32, AT(adapter_slots), 0, HEARTBEAT_COUNT_MAX,
                          "an integer, 0 to 2147483647"},
    [HF_META] = {NAME("meta"), HK_META, 0, 0, 0, "a map of UTF-8, at most 4096 bytes as JSON"},
};

/* One value of either encoding. */
enum value_type { VT_OTHER, VT_NULL, VT_BOOL, VT_INTEGER, VT_NUMBER, VT_TEXT, VT_LIST, VT_MAP };

struct value {
    enum value_type type;
    int64_t integer; /* VT_BOOL too */
    double number;
    struct span text;
    uint32_t count; /* members of a list or map */
    const msgpack_object *packed;
    const cJSON *json;
};

/* Called per member; key is empty in lists, ptr NULL if the key is no text. False stops. */
typedef bool (*member_fn)(void *arg, struct span key, const struct value *value);

#define EXACT_MAX (1LL << 53) /* up to here a double, so JSON, holds every integer */

static struct value value_of_double(double d)
{
    if (fabs(d) <= (double)EXACT_MAX && floor(d) == d)
        return (struct value){.type = VT_INTEGER, .integer = (int64_t)d};
    return (struct value){.type = VT_NUMBER, .number = d};
}

static struct value value_of_integer(int64_t i)
{
    if (i < -EXACT_MAX || i > EXACT_MAX)
        return (struct value){.type = VT_NUMBER, .number = (double)i};
    return (struct value){.type = VT_INTEGER, .integer = i};
}

static struct value value_of_packed(const msgpack_object *o)
{
    struct value v = {.type = VT_OTHER, .packed = o};

    switch (o->type) {
    case MSGPACK_OBJECT_NIL:
        v.type = VT_NULL;
        break;
    case MSGPACK_OBJECT_BOOLEAN:
        v.type = VT_BOOL;
        v.integer = o->via.boolean;
        break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        if (o->via.u64 > INT64_MAX)
            return (struct value){.type = VT_NUMBER, .number = (double)o->via.u64};
        return value_of_integer((int64_t)o->via.u64);
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return value_of_integer(o->via.i64);
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return value_of_double(o->via.f64);
    case MSGPACK_OBJECT_STR:
        v.type = VT_TEXT;
        v.text = o->via.str.size ? span_of(o->via.str.ptr, o->via.str.size) : SPAN_EMPTY;
        break;
    case MSGPACK_OBJECT_ARRAY:
        v.type = VT_LIST;
        v.count = o->via.array.size;
        break;
    case MSGPACK_OBJECT_MAP:
        v.type = VT_MAP;
        v.count = o->via.map.size;
        break;
    default:
        break;
    }
    return v;
}

static struct value value_of_json(const cJSON *item)
{
    struct value v = {.type = VT_OTHER, .json = item};

    if (cJSON_IsNumber(item))
        return value_of_double(item->valuedouble);
    if (cJSON_IsNull(item)) {
        v.type = VT_NULL;
    } else if (cJSON_IsBool(item)) {
        v.type = VT_BOOL;
        v.integer = cJSON_IsTrue(item);
    } else if (cJSON_IsString(item)) {
        v.type = VT_TEXT;
        v.text = span_str(item->valuestring);
    } else if (cJSON_IsArray(item) || cJSON_IsObject(item)) {
        v.type = cJSON_IsArray(item) ? VT_LIST : VT_MAP;
        v.count = (uint32_t)cJSON_GetArraySize(item);
    }
    return v;
}

static bool each_packed(const msgpack_object *o, member_fn fn, void *arg)
{
    for (uint32_t i = 0; o->type == MSGPACK_OBJECT_ARRAY && i < o->via.array.size; i++) {
        struct value v = value_of_packed(&o->via.array.ptr[i]);

        if (!fn(arg, SPAN_EMPTY, &v))
            return false;
    }
    for (uint32_t i = 0; o->type == MSGPACK_OBJECT_MAP && i < o->via.map.size; i++) {
        struct value key = value_of_packed(&o->via.map.ptr[i].key);
        struct value v = value_of_packed(&o->via.map.ptr[i].val);

        if (!fn(arg, key.type == VT_TEXT ? key.text : (struct span){NULL, 0}, &v))
            return false;
    }
    return true;
}

static bool each(const struct value *container, member_fn fn, void *arg)
{
    const cJSON *item;

    if (container->packed)
        return each_packed(container->packed, fn, arg);
    cJSON_ArrayForEach(item, container->json)
    {
        struct value v = value_of_json(item);

        if (!fn(arg, item->string ? span_str(item->string) : SPAN_EMPTY, &v))
            return false;
    }
    return true;
}

/* What a first pass over the map leaves for the second. */
struct decoding {
    struct heartbeat *hb;
    struct value adapters, inflight_by, meta;
    char *why;
};

static bool refuse(struct decoding *d, const struct heartbeat_field *field)
{
    snprintf(d->why, 128, "%s: expected %s", field->name.ptr, field->expected);
    return false;
}

static bool take_state(struct heartbeat *hb, const struct value *v)
{
    for (int i = 0; v->type == VT_TEXT && i < HB_STATE_COUNT; i++)
        if (span_eq_str(v->text, heartbeat_state_names[i])) {
            hb->state = (enum heartbeat_state)i;
            return true;
        }
    return false;
}

static bool take_class(struct heartbeat *hb, const struct value *v)
{
    if (v->type != VT_TEXT || (v->text.len && !name_is_id(v->text)))
        return false;
    memcpy(hb->class_name, v->text.ptr, v->text.len);
    hb->class_name[v->text.len] = '\0';
    return true;
}

struct rank_set {
    unsigned char seen[HEARTBEAT_RANKS_MAX];
    uint32_t count;
};

static bool take_rank(void *arg, struct span key, const struct value *v)
{
    struct rank_set *set = arg;

    (void)key;
    if (v->type != VT_INTEGER || v->integer < 0 || v->integer >= set->count ||
        set->seen[v->integer])
        return false;
    set->seen[v->integer] = 1;
    return true;
}

static bool take_ranks(struct heartbeat *hb, const struct value *v)
{
    struct rank_set set;

    if (v->type == VT_INTEGER && v->integer >= 0 && v->integer <= HEARTBEAT_RANKS_MAX) {
        hb->ranks = (uint32_t)v->integer;
        return true;
    }
    if (v->type != VT_LIST || v->count > HEARTBEAT_RANKS_MAX)
        return false;
    memset(&set, 0, sizeof(set));
    set.count = v->count;
    hb->ranks = v->count;
    return each(v, take_rank, &set); /* n different ones below n are 0..n-1 */
}

static bool take_number(struct heartbeat *hb, const struct heartbeat_field *field,
                        const struct value *v)
{
    void *at = (char *)hb + field->offset;

    if (v->type != VT_INTEGER || v->integer < field->min || v->integer > field->max)
        return false;
    if (field->kind == HK_INT)
        *(int *)at = (int)v->integer;
    else if (field->kind == HK_I64)
        *(int64_t *)at = v->integer;
    else
        *(uint32_t *)at = (uint32_t)v->integer;
    return true;
}

static bool good_adapter(void *arg, struct span key, const struct value *v)
{
    (void)arg;
    (void)key;
    return v->type == VT_TEXT && name_is_long(v->text);
}

static bool good_inflight(void *arg, struct span key, const struct value *v)
{
    (void)arg;
    return key.ptr && name_is_id(key) && v->type == VT_INTEGER && v->integer >= 0 &&
           v->integer <= HEARTBEAT_INFLIGHT_BY_MAX;
}

static bool take_field(void *arg, struct span key, const struct value *v)
{
    struct decoding *d = arg;
    const struct heartbeat_field *field = NULL;
    bool good = false;

    for (int i = 0; key.ptr && i < HF_COUNT; i++)
        if (span_eq(heartbeat_fields[i].name, key))
            field = &heartbeat_fields[i];
    if (!field)
        return true;
    switch (field->kind) {
    case HK_INT:
    case HK_I64:
    case HK_U32:
        good = take_number(d->hb, field, v);
        break;
    case HK_STATE:
        good = take_state(d->hb, v);
        break;
    case HK_CLASS:
        good = take_class(d->hb, v);
        break;
    case HK_RANKS:
        good = take_ranks(d->hb, v);
        break;
    case HK_ADAPTERS:
        d->adapters = *v;
        good = v->type == VT_LIST && v->count <= HEARTBEAT_ADAPTERS_MAX && each(v, good_adapter, d);
        break;
    case HK_INFLIGHT_BY:
        d->inflight_by = *v;
        good = v->type == VT_MAP && v->count <= HEARTBEAT_ROUTERS_MAX && each(v, good_inflight, d);
        break;
    case HK_META:
        d->meta = *v;
        good = v->type == VT_MAP;
        break;
    }
    return good || refuse(d, field);
}

/* Writes a value as JSON. A msgpack bin, ext or key that is no text has no such form; a text that
 * no reader of JSON would take (json_read) is refused here as well. */
struct rewrite {
    struct json j;
    unsigned depth;
};

static bool rewrite_value(struct rewrite *w, const char *key, const struct value *v);

static bool is_good_text(struct span text)
{
    return utf8_bad_at(text) == text.len && !memchr(text.ptr, '\0', text.len);
}

static bool rewrite_member(void *arg, struct span key, const struct value *v)
{
    char name[WB_LONG_NAME_MAX + 1];

    if (!key.ptr || key.len > WB_LONG_NAME_MAX || !is_good_text(key))
        return false;
    memcpy(name, key.ptr, key.len);
    name[key.len] = '\0';
    return rewrite_value(arg, name, v);
}

static bool rewrite_element(void *arg, struct span key, const struct value *v)
{
    (void)key;
    return rewrite_value(arg, NULL, v);
}

static bool rewrite_value(struct rewrite *w, const char *key, const struct value *v)
{
    bool good = true;

    switch (v->type) {
    case VT_NULL:
        json_null(&w->j, key);
        break;
    case VT_BOOL:
        json_bool(&w->j, key, v->integer);
        break;
    case VT_INTEGER:
        json_int(&w->j, key, v->integer);
        break;
    case VT_NUMBER:
        json_double(&w->j, key, v->number);
        break;
    case VT_TEXT:
        good = is_good_text(v->text);
        json_text(&w->j, key, v->text);
        break;
    case VT_LIST:
    case VT_MAP:
        if (++w->depth > JSON_DEPTH_MAX)
            return false;
        if (v->type == VT_LIST) {
            json_array(&w->j, key);
            good = each(v, rewrite_element, w);
            json_end_array(&w->j);
        } else {
            json_object(&w->j, key);
            good = each(v, rewrite_member, w);
            json_end_object(&w->j);
        }
        w->depth--;
        break;
    case VT_OTHER:
        return false;
    }
    return good && json_status(&w->j) == WB_OK;
}

/* The second pass: where the next list entry and the next text go. */
struct filling {
    struct heartbeat *hb;
    char *text;
};

static struct span keep(struct filling *f, struct span text)
{
    struct span kept = span_of(f->text, text.len);

    memcpy(f->text, text.ptr, text.len);
    f->text += text.len;
    return kept;
}

static bool fill_adapter(void *arg, struct span key, const struct value *v)
{
    struct filling *f = arg;

    (void)key;
    f->hb->adapters[f->hb->adapter_count++] = keep(f, v->text);
    return true;
}

static bool fill_inflight(void *arg, struct span key, const struct value *v)
{
    struct filling *f = arg;

    f->hb->inflight_by[f->hb->inflight_by_count++] =
        (struct heartbeat_inflight){keep(f, key), (uint32_t)v->integer};
    return true;
}

static bool text_size(void *arg, struct span key, const struct value *v)
{
    *(size_t *)arg += key.len + v->text.len;
    return true;
}

static int span_order(struct span a, struct span b)
{
    int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int adapter_order(const void *a, const void *b)
{
    return span_order(*(const struct span *)a, *(const struct span *)b);
}

/* Of a router named twice the last is to win: its text lies further behind. */
static int inflight_order(const void *a, const void *b)
{
    const struct heartbeat_inflight *x = a, *y = b;
    int order = span_order(x->router, y->router);

    return order ? order : (x->router.ptr > y->router.ptr) - (x->router.ptr < y->router.ptr);
}

static void sort_and_merge(struct heartbeat *hb)
{
    uint32_t n = 0;

    if (hb->adapter_count)
        qsort(hb->adapters, hb->adapter_count, sizeof(*hb->adapters), adapter_order);
    for (uint32_t i = 0; i < hb->adapter_count; i++)
        if (n == 0 || !span_eq(hb->adapters[n - 1], hb->adapters[i]))
            hb->adapters[n++] = hb->adapters[i];
    hb->adapter_count = n;
    n = 0;
    if (hb->inflight_by_count)
        qsort(hb->inflight_by, hb->inflight_by_count, sizeof(*hb->inflight_by), inflight_order);
    for (uint32_t i = 0; i < hb->inflight_by_count; i++) {
        if (n && span_eq(hb->inflight_by[n - 1].router, hb->inflight_by[i].router))
            n--;
        hb->inflight_by[n++] = hb->inflight_by[i];
    }
    hb->inflight_by_count = n;
}

static wb_status fill(struct decoding *d, struct span meta)
{
    struct heartbeat *hb = d->hb;
    size_t lists =
        d->adapters.count * sizeof(*hb->adapters) + d->inflight_by.count * sizeof(*hb->inflight_by);
    size_t texts = meta.len;
    struct filling f = {.hb = hb};

    hb->has_adapters = d->adapters.type == VT_LIST;
    hb->has_inflight_by = d->inflight_by.type == VT_MAP;
    hb->has_meta = d->meta.type == VT_MAP;
    if (hb->has_adapters)
        each(&d->adapters, text_size, &texts);
    if (hb->has_inflight_by)
        each(&d->inflight_by, text_size, &texts);
    if (lists + texts == 0)
        return WB_OK;
    hb->memory = malloc(lists + texts);
    if (!hb->memory)
        return WB_NO_MEMORY;
    hb->adapters = hb->memory;
    hb->inflight_by = (struct heartbeat_inflight *)(hb->adapters + d->adapters.count);
    f.text = (char *)hb->memory + lists;
    if (hb->has_adapters)
        each(&d->adapters, fill_adapter, &f);
    if (hb->has_inflight_by)
        each(&d->inflight_by, fill_inflight, &f);
    hb->meta = keep(&f, meta);
    sort_and_merge(hb);
    return WB_OK;
}

static wb_status decode(const struct value *top, struct heartbeat *hb, char *why)
{
    struct decoding d = {.hb = hb, .why = why};
    struct rewrite w = {.depth = 0};
    struct buf meta;
    wb_status status;

    if (top->type != VT_MAP) {
        snprintf(why, 128, "heartbeat: expected a map");
        return WB_INVALID;
    }
    if (!each(top, take_field, &d))
        return WB_INVALID;
    buf_init(&meta, HEARTBEAT_META_MAX);
    json_begin(&w.j, &meta);
    if (d.meta.type == VT_MAP && !rewrite_value(&w, NULL, &d.meta)) {
        refuse(&d, &heartbeat_fields[HF_META]);
        status = WB_INVALID;
    } else {
        status = fill(&d, buf_span(&meta));
        if (status != WB_OK)
            snprintf(why, 128, "no memory");
    }
    buf_fini(&meta);
    return status;
}

/* Big-endian number of n bytes. */
static uint64_t number_at(const unsigned char *at, unsigned n)
{
    uint64_t value = 0;

    while (n--)
        value = value << 8 | *at++;
    return value;
}

/* The head of one msgpack object: how many bytes it takes itself (with its payload) and how many
 * objects follow as its members. */
static bool msgpack_head(const unsigned char *at, size_t left, uint64_t *bytes, uint64_t *members)
{
    /* 0xc0..0xdf: bytes behind the type byte; for those with a length field, its width, then how
     * much one unit of it adds */
    static const unsigned char fixed[32] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 8, 1,
                                            2, 4, 8, 1, 2, 4, 8, 2, 3, 5, 9, 17};
    static const unsigned char width[32] = {
        [4] = 1,  [5] = 2,  [6] = 4,  [7] = 1,  [8] = 2,  [9] = 4, [25] = 1,
        [26] = 2, [27] = 4, [28] = 2, [29] = 4, [30] = 2, [31] = 4};
    unsigned char type = at[0];
    unsigned i = type - 0xc0U;
    uint64_t n;

    *members = 0;
    *bytes = 1;
    if (type < 0x80 || type >= 0xe0)
        return true;
    if (type < 0xc0) { /* fixmap, fixarray, fixstr */
        if (type < 0x90)
            *members = (type & 15U) * 2U;
        else if (type < 0xa0)
            *members = type & 15U;
        else
            *bytes += type & 31U;
        return true;
    }
    if (type == 0xc1 || left < 1U + width[i])
        return false;
    n = number_at(at + 1, width[i]);
    *bytes += fixed[i] + width[i];
    if (type >= 0xdc)
        *members = type >= 0xde ? n * 2 : n;
    else
        *bytes += n + (type >= 0xc7 && type <= 0xc9); /* ext has a type byte more */
    return true;
}

static bool msgpack_sane(struct span bytes)
{
    const unsigned char *at = (const unsigned char *)bytes.ptr;
    uint64_t open[JSON_DEPTH_MAX + 1] = {1}; /* objects still to come at each depth */
    size_t left = bytes.len;
    unsigned depth = 0;

    for (;;) {
        uint64_t size, members;

        while (depth && open[depth] == 0)
            depth--;
        if (open[depth] == 0)
            return left == 0;
        if (left == 0 || !msgpack_head(at, left, &size, &members) || size > left)
            return false;
        open[depth]--;
        at += size;
        left -= size;
        if (members > left) /* each takes a byte at least */
            return false;
        if (members) {
            if (depth == JSON_DEPTH_MAX)
                return false;
            open[++depth] = members;
        }
    }
}

static wb_status decode_msgpack(struct span bytes, struct heartbeat *hb, char *why)
{
    msgpack_unpacked unpacked;
    size_t offset = 0;
    wb_status status = WB_INVALID;

    if (!msgpack_sane(bytes)) {
        snprintf(why, 128, "heartbeat: malformed msgpack, or nested deeper than 16");
        return WB_INVALID;
    }
    msgpack_unpacked_init(&unpacked);
    if (msgpack_unpack_next(&unpacked, bytes.ptr, bytes.len, &offset) == MSGPACK_UNPACK_SUCCESS) {
        struct value top = value_of_packed(&unpacked.data);

        status = decode(&top, hb, why);
    } else {
        snprintf(why, 128, "heartbeat: malformed msgpack");
    }
    msgpack_unpacked_destroy(&unpacked);
    return status;
}

static wb_status decode_json(struct span bytes, struct heartbeat *hb, char *why)
{
    const char *wrong;
    cJSON *tree = json_read(bytes, &wrong);
    struct value top;
    wb_status status;

    if (!tree) {
        snprintf(why, 128, "heartbeat: %s", wrong);
        return WB_INVALID;
    }
    top = value_of_json(tree);
    status = decode(&top, hb, why);
    cJSON_Delete(tree);
    return status;
}

void heartbeat_defaults(struct heartbeat *hb)
{
    *hb = (struct heartbeat){.v = 1,
                             .state = HB_READY,
                             .interval_ms = HEARTBEAT_INTERVAL_DEFAULT_MS,
                             .weight = 100,
                             .meta = SPAN_EMPTY};
}

wb_status heartbeat_decode(struct span bytes, struct heartbeat *hb, char why[128])
{
    wb_status status;
    unsigned char first;

    heartbeat_defaults(hb);
    why[0] = '\0';
    if (bytes.len > HEARTBEAT_SIZE_MAX) {
        snprintf(why, 128, "heartbeat: larger than %d bytes", HEARTBEAT_SIZE_MAX);
        return WB_TOO_LARGE;
    }
    first = bytes.len ? (unsigned char)bytes.ptr[0] : 0;
    if (first == '{' || first == ' ' || first == '\n' || first == '\r' || first == '\t')
        status = decode_json(bytes, hb, why);
    else if ((first & 0xf0) == 0x80 || first == 0xde || first == 0xdf)
        status = decode_msgpack(bytes, hb, why);
    else {
        snprintf(why, 128, "heartbeat: expected a msgpack map or a JSON object");
        status = WB_INVALID;
    }
    if (status != WB_OK)
        heartbeat_fini(hb);
    return status;
}

void heartbeat_fini(struct heartbeat *hb)
{
    free(hb->memory);
    heartbeat_defaults(hb);
}
