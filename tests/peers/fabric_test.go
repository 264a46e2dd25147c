package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var bound, _ = time.ParseDuration(os.Getenv("PEERS_BOUND"))

// The fabric is tests/e2e/test_go_peers.py's: a server with the contract's permissions and a router. Each party comes as its own user.
func connect(t *testing.T, user string) *nats.Conn {
	t.Helper()
	url := os.Getenv("PEERS_URL")
	if url == "" {
		t.Skip("PEERS_URL is not set: tests/e2e/test_go_peers.py runs this")
	}
	nc, err := nats.Connect(url, nats.UserInfo(user, os.Getenv("PEERS_PASSWORD")), nats.Name("go-"+user),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { t.Errorf("%s: %v", user, err) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// worker is known to the router when this returns.
func worker(t *testing.T, service, id string, encode Encode, serve func(*Task)) *Worker {
	t.Helper()
	w, err := StartWorker(connect(t, service+"-"+id), service, id, encode, serve)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, w.Leave()) })
	known(t, service, id)
	return w
}

func known(t *testing.T, service, id string) {
	t.Helper()
	nc := connect(t, "operator")
	await(t, "worker "+id+" at the router", func() bool {
		m, err := nc.Request("waybill.admin.show.workers.router-1", []byte("{}"), bound)
		if err != nil {
			t.Fatal(err)
		}
		var shown struct {
			Services []struct {
				Service string
				Workers []struct{ ID string }
			}
		}
		check(t, json.Unmarshal(m.Data, &shown))
		for _, s := range shown.Services {
			for _, w := range s.Workers {
				if s.Service == service && w.ID == id {
					return true
				}
			}
		}
		return false
	})
}

// await asks again until it is so, within the bound.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(bound)
	for !so() {
		select {
		case <-late:
			t.Fatalf("no %s within %v", what, bound)
		case <-tick.C:
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same[T comparable](t *testing.T, what string, want, got T) {
	t.Helper()
	if want != got {
		t.Errorf("%s: %v, not %v", what, got, want)
	}
}

// header: exactly once, with exactly this value.
func header(t *testing.T, m *nats.Msg, name, want string) {
	t.Helper()
	if values := m.Header[name]; len(values) != 1 || values[0] != want {
		t.Errorf("header %s: %q, not %q; all: %v", name, values, want, m.Header)
	}
}

func without(t *testing.T, m *nats.Msg, names ...string) {
	t.Helper()
	for _, name := range names {
		if values, there := m.Header[name]; there {
			t.Errorf("header %s: %q, should be absent", name, values)
		}
	}
}

// Ask sends one request and takes the one answer.
func ask(t *testing.T, nc *nats.Conn, subject, id, data string, headers nats.Header) *nats.Msg {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(data)
	for name, values := range headers {
		m.Header[name] = values
	}
	m.Header.Set("Waybill-Request-Id", id)
	answer, err := nc.RequestMsg(m, bound)
	if err != nil {
		t.Fatalf("request %s: %v", id, err)
	}
	return answer
}

// routerError: the headers and the body by schemas/error.schema.json; nobody served.
func routerError(t *testing.T, m *nats.Msg, name string, code int, id, delivered string) {
	t.Helper()
	header(t, m, "Waybill-Error", name)
	header(t, m, "Nats-Service-Error-Code", fmt.Sprint(code))
	header(t, m, "Waybill-Request-Id", id)
	header(t, m, "Waybill-Delivered", delivered)
	without(t, m, "Waybill-Worker")
	if m.Header.Get("Nats-Service-Error") == "" {
		t.Error("no Nats-Service-Error")
	}
}

type errorBody struct {
	Error, Message string
	RequestID      string `json:"request_id"`
	Attempts       []struct{ Worker, Cause string }
}

func body(t *testing.T, m *nats.Msg) (b errorBody) {
	t.Helper()
	check(t, json.Unmarshal(m.Data, &b))
	return b
}

type record struct {
	Worker    string
	Attempt   int
	Service   string
	RequestID string `json:"request_id"`
	Tried     []struct{ Worker, Cause string }
	Selected  string
	Reason    string
	Subject   string
	Router    string
	Epoch     int64  `json:"worker_epoch"`
	Trace     string `json:"trace"`
	Replies   *int
	Code      *int
	Outcome   string
}

// Book is the bucket, read with an operator's rights through nats.go's own key-value API.
type book struct {
	t  *testing.T
	kv jetstream.KeyValue
}

func openBook(t *testing.T) book {
	t.Helper()
	js, err := jetstream.New(connect(t, "operator"))
	check(t, err)
	var kv jetstream.KeyValue
	await(t, "bucket", func() bool {
		kv, err = js.KeyValue(context.Background(), "waybill_attribution")
		return err == nil
	})
	return book{t, kv}
}

func (b book) entry(key string) (r record, revision uint64, there bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	e, err := b.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return r, 0, false
	}
	check(b.t, err)
	check(b.t, json.Unmarshal(e.Value(), &r))
	return r, e.Revision(), true
}

// outcome waits for the record of this key with this outcome.
func (b book) outcome(key, outcome string) (r record) {
	b.t.Helper()
	await(b.t, "record "+key+" "+outcome, func() bool {
		var there bool
		r, _, there = b.entry(key)
		return there && r.Outcome == outcome
	})
	return r
}

func (b book) none(key string) {
	b.t.Helper()
	if r, _, there := b.entry(key); there {
		b.t.Errorf("there is a record %s: %+v", key, r)
	}
}
