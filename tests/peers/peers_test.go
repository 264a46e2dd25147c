package peers

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

func upper(t *Task) { _ = t.Answer([]byte(strings.ToUpper(string(t.Data))), nil) }

func count(t *Task) {
	_ = t.Progress()
	n, _ := strconv.Atoi(string(t.Data))
	for i := 1; i <= n; i++ {
		_ = t.Send([]byte(strconv.Itoa(i)))
	}
	_ = t.End()
}

func TestOneAnswer(t *testing.T) {
	for name, encode := range map[string]Encode{"json": JSON, "msgpack": MsgPack} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan *nats.Msg, 1)
			w := worker(t, "echo", "w1", encode, func(task *Task) {
				seen <- task.Msg
				check(t, task.Answer([]byte("HELLO"), nats.Header{"X-Theirs": {"1", "2"}, "Waybill-Worker": {"somebody"}}))
			})
			id := "go-one-" + name
			answer := ask(t, connect(t, "client"), "echo.request.x", id, "hello", nats.Header{"X-Mine": {"a", "b"},
				"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "Waybill-Adapter": {"fr-v1"}})
			same(t, "answer", "HELLO", string(answer.Data))
			header(t, answer, "Waybill-Worker", "w1")
			header(t, answer, "Waybill-Request-Id", id)
			header(t, answer, "Waybill-Attempt", "1")
			without(t, answer, "Waybill-Error", "Nats-Service-Error", "Waybill-Seq")
			same(t, "the worker's headers", "[1 2]", fmt.Sprint(answer.Header["X-Theirs"]))

			m := <-seen
			same(t, "the client's headers", "[a b]", fmt.Sprint(m.Header["X-Mine"]))
			header(t, m, "Waybill-Request-Id", id)
			header(t, m, "Waybill-Subject", "echo.request.x")
			header(t, m, "Waybill-Router", "router-1")
			header(t, m, "Waybill-Attempt", "1")

			r := openBook(t).outcome("echo."+id, "done")
			same(t, "worker", "w1", r.Worker)
			same(t, "selected", "w1", r.Selected)
			same(t, "epoch", w.beat.Epoch, r.Epoch)
			same(t, "subject", "echo.request.x", r.Subject)
			same(t, "trace", "0af7651916cd43dd8448eb211c80319c", r.Trace)
			same(t, "tried", 0, len(r.Tried))
		})
	}
}

func TestAWorkersErrorIsItsAnswer(t *testing.T) {
	worker(t, "echo", "w1", MsgPack, func(task *Task) { check(t, task.Fail(422, "too blue", []byte("why"), nil)) })
	answer := ask(t, connect(t, "client"), "echo.request.x", "go-error", "q", nil)
	header(t, answer, "Nats-Service-Error-Code", "422")
	header(t, answer, "Nats-Service-Error", "too blue")
	header(t, answer, "Waybill-Worker", "w1")
	without(t, answer, "Waybill-Error")
	same(t, "payload", "why", string(answer.Data))
	r := openBook(t).outcome("echo.go-error", "error")
	same(t, "worker", "w1", r.Worker)
	if r.Code == nil || *r.Code != 422 {
		t.Errorf("code: %v", r.Code)
	}
}

func TestARefusalLeadsToTheOther(t *testing.T) {
	var asked atomic.Int32
	var first atomic.Value
	serve := func(task *Task) {
		if asked.Add(1) == 1 {
			first.Store(task.Worker.ID)
			check(t, task.Fail(503, "later", nil, nats.Header{"Waybill-Retry-After-Ms": {"50"}}))
			return
		}
		upper(task)
	}
	worker(t, "echo", "w1", JSON, serve)
	worker(t, "echo", "w2", MsgPack, serve)
	answer := ask(t, connect(t, "client"), "echo.request.x", "go-refusal", "q", nil)
	refuser := first.Load().(string)
	server := map[string]string{"w1": "w2", "w2": "w1"}[refuser]
	same(t, "answer", "Q", string(answer.Data))
	header(t, answer, "Waybill-Worker", server)
	header(t, answer, "Waybill-Attempt", "2")
	r := openBook(t).outcome("echo.go-refusal", "done")
	same(t, "worker", server, r.Worker)
	same(t, "selected", refuser, r.Selected)
	same(t, "attempt", 2, r.Attempt)
	same(t, "reason", "retry", r.Reason)
	same(t, "tried", "[{"+refuser+" refused}]", fmt.Sprint(r.Tried))
}

func TestRefusedByAllIsNobodysAnswer(t *testing.T) {
	refusing := atomic.Bool{}
	refusing.Store(true)
	worker(t, "echo", "w1", JSON, func(task *Task) {
		if refusing.Load() {
			check(t, task.Fail(429, "full", []byte("not now"), nats.Header{"Waybill-Retry-After-Ms": {"1"}}))
			return
		}
		upper(task)
	})
	nc, books := connect(t, "client"), openBook(t)
	answer := ask(t, nc, "echo.request.x", "go-refused", "q", nil)
	routerError(t, answer, "overloaded", 429, "go-refused", "no")
	same(t, "the refusal's payload", "not now", string(answer.Data))
	refusing.Store(false)
	await(t, "answer after the refusal", func() bool { // the mark ends in its time
		return ask(t, nc, "echo.request.x", "go-served", "q", nil).Header.Get("Waybill-Error") == ""
	})
	books.outcome("echo.go-served", "done")
	books.none("echo.go-refused")
}

func TestNobodyThere(t *testing.T) {
	w := worker(t, "echo", "w1", JSON, upper)
	check(t, w.Announce("draining"))
	check(t, w.nc.Flush())
	nc := connect(t, "client")
	var answer *nats.Msg
	await(t, "no_worker", func() bool {
		answer = ask(t, nc, "echo.request.x", "go-nobody", "q", nil)
		return answer.Header.Get("Waybill-Error") == "no_worker"
	})
	routerError(t, answer, "no_worker", 503, "go-nobody", "no")
	same(t, "body", "no_worker", body(t, answer).Error)
	same(t, "body", "go-nobody", body(t, answer).RequestID)
}

func TestAClientsMistakes(t *testing.T) {
	release := make(chan struct{})
	taken := make(chan struct{}, 1)
	worker(t, "echo", "w1", JSON, func(task *Task) {
		taken <- struct{}{}
		<-release
		upper(task)
	})
	nc := connect(t, "client")
	bad := ask(t, nc, "echo.request.x", "go-bad", "q", nats.Header{"Waybill-Replies": {"many"}})
	routerError(t, bad, "bad_request", 400, "go-bad", "no")
	unknown := ask(t, nc, "echo.request.x", "go-unknown", "q", nats.Header{"Waybill-Target": {"w6"}})
	routerError(t, unknown, "unknown_worker", 404, "go-unknown", "no")

	answered := make(chan *nats.Msg, 1)
	go func() { answered <- ask(t, nc, "echo.request.x", "go-twice", "q", nil) }()
	<-taken
	routerError(t, ask(t, nc, "echo.request.x", "go-twice", "q", nil), "duplicate", 409, "go-twice", "no")
	close(release)
	header(t, <-answered, "Waybill-Worker", "w1")
}

// stream reads to the empty end and checks the numbers of all that comes.
func stream(t *testing.T, sub *nats.Subscription, onMessage func(*nats.Msg)) *nats.Msg {
	t.Helper()
	for seq := 1; ; seq++ {
		m, err := sub.NextMsg(bound)
		if err != nil {
			t.Fatalf("message %d: %v", seq, err)
		}
		header(t, m, "Waybill-Seq", strconv.Itoa(seq))
		if len(m.Data) == 0 {
			if more, err := sub.NextMsg(50 * time.Millisecond); err == nil {
				t.Errorf("after the end: %v", more)
			}
			return m
		}
		onMessage(m)
	}
}

func open(t *testing.T, nc *nats.Conn, id, data string) *nats.Subscription {
	t.Helper()
	inbox := nc.NewRespInbox()
	sub, err := nc.SubscribeSync(inbox)
	check(t, err)
	m := &nats.Msg{Subject: "count.request.x", Reply: inbox, Data: []byte(data), Header: nats.Header{"Waybill-Request-Id": {id}}}
	check(t, nc.PublishMsg(m))
	return sub
}

func TestStream(t *testing.T) {
	worker(t, "count", "w1", MsgPack, count)
	nc, books := connect(t, "client"), openBook(t)
	for _, n := range []int{10, 0, 1000} {
		id, got := fmt.Sprintf("go-stream-%d", n), 0
		end := stream(t, open(t, nc, id, strconv.Itoa(n)), func(m *nats.Msg) {
			got++
			same(t, "message", strconv.Itoa(got), string(m.Data))
			if got == 1 {
				header(t, m, "Waybill-Worker", "w1")
			} else {
				without(t, m, "Waybill-Worker")
			}
		})
		same(t, "messages", n, got)
		header(t, end, "Waybill-Outcome", "done")
		header(t, end, "Waybill-Count", strconv.Itoa(n))
		header(t, end, "Waybill-Worker", "w1")
		r := books.outcome("count."+id, "done")
		if r.Replies == nil || *r.Replies != n {
			t.Errorf("replies of %s: %v", id, r.Replies)
		}
	}
}

func TestALostMessageIsNeverDone(t *testing.T) {
	worker(t, "count", "w1", JSON, func(task *Task) {
		check(t, task.Send([]byte("1")))
		task.Lose()
		check(t, task.Send([]byte("3")))
		check(t, task.End())
	})
	var data, failed []string
	end := stream(t, open(t, connect(t, "client"), "go-hole", "3"), func(m *nats.Msg) {
		if m.Header.Get("Waybill-Error") != "" {
			failed = append(failed, m.Header.Get("Waybill-Error"))
			same(t, "body", "interrupted", body(t, m).Error)
			return
		}
		data = append(data, string(m.Data))
	})
	same(t, "data", "[1]", fmt.Sprint(data))
	same(t, "errors", "[interrupted]", fmt.Sprint(failed))
	header(t, end, "Waybill-Outcome", "interrupted")
	header(t, end, "Waybill-Error", "interrupted")
	header(t, end, "Waybill-Count", "1")
	same(t, "worker", "w1", openBook(t).outcome("count.go-hole", "interrupted").Worker)
}

func TestAClientCancels(t *testing.T) {
	w := worker(t, "count", "w1", MsgPack, func(task *Task) { check(t, task.Send([]byte("1"))) }) // and no end
	nc := connect(t, "client")
	sub := open(t, nc, "go-cancel", "1")
	var outcome string
	end := stream(t, sub, func(m *nats.Msg) {
		if string(m.Data) != "1" {
			outcome = m.Header.Get("Waybill-Error")
			return
		}
		answer, err := nc.RequestMsg(&nats.Msg{Subject: "waybill.cancel.count.go-cancel", Header: nats.Header{"Waybill-Reply": {sub.Subject}}}, bound)
		check(t, err)
		same(t, "cancel", `{"cancelled":true}`, string(answer.Data))
	})
	same(t, "error", "cancelled", outcome)
	header(t, end, "Waybill-Outcome", "cancelled")
	select {
	case m := <-w.Cancels:
		header(t, m, "Waybill-Request-Id", "go-cancel")
		header(t, m, "Waybill-Attempt", "1")
	case <-time.After(bound):
		t.Error("the worker was not told")
	}
	same(t, "worker", "w1", openBook(t).outcome("count.go-cancel", "cancelled").Worker)
}

// A service of nats.go's micro package is a static worker as it stands: its errors are refusals and answers like anybody's.
func TestAMicroServiceIsAStaticWorker(t *testing.T) {
	var asked atomic.Int32
	service, err := micro.AddService(connect(t, "micro"), micro.Config{Name: "plain", Version: "1.0.0", Endpoint: &micro.EndpointConfig{
		Subject: "plain.micro",
		Handler: micro.HandlerFunc(func(r micro.Request) {
			switch asked.Add(1) {
			case 1:
				check(t, r.Error("429", "later", nil))
			case 2:
				check(t, r.Error("418", "teapot", []byte("short and stout")))
			default:
				check(t, r.Respond(r.Data()))
			}
		})}})
	check(t, err)
	t.Cleanup(func() { check(t, service.Stop()) })
	nc, books := connect(t, "client"), openBook(t)
	await(t, "router that has subscribed", func() bool {
		answer, err := nc.Request("plain.request.x", []byte("q"), bound)
		return err == nil && answer.Header.Get("Waybill-Error") != "no_worker"
	})
	var answer *nats.Msg
	await(t, "answer after the refusal", func() bool {
		answer = ask(t, nc, "plain.request.x", "go-teapot", "q", nil)
		return answer.Header.Get("Waybill-Error") == ""
	})
	header(t, answer, "Nats-Service-Error-Code", "418")
	header(t, answer, "Waybill-Worker", "micro")
	same(t, "payload", "short and stout", string(answer.Data))
	books.outcome("plain.go-teapot", "error")
	answer = ask(t, nc, "plain.request.x", "go-plain", "hello", nil)
	same(t, "answer", "hello", string(answer.Data))
	header(t, answer, "Waybill-Worker", "micro")
	same(t, "worker", "micro", books.outcome("plain.go-plain", "done").Worker)
}
