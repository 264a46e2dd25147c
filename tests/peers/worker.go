// Package peers holds Waybill's parties as a Go developer writes them: nats.go and the protocol's page (schemas/README.md), nothing of ours.
package peers

import (
	"encoding/json"
	"math/rand"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"
)

// Encode makes a heartbeat's bytes.
type Encode func(any) ([]byte, error)

// The two encodings that a router reads.
var (
	JSON    Encode = json.Marshal
	MsgPack Encode = msgpack.Marshal
)

// Heartbeat is what a worker says of itself.
type Heartbeat struct {
	V          int            `json:"v" msgpack:"v"`
	Epoch      int64          `json:"epoch" msgpack:"epoch"`
	State      string         `json:"state" msgpack:"state"`
	IntervalMs int            `json:"interval_ms" msgpack:"interval_ms"`
	Capacity   int            `json:"capacity" msgpack:"capacity"`
	Inflight   int            `json:"inflight" msgpack:"inflight"`
	InflightBy map[string]int `json:"inflight_by" msgpack:"inflight_by"`
	Class      string         `json:"class" msgpack:"class"`
	Adapters   []string       `json:"adapters" msgpack:"adapters"`
	Meta       map[string]any `json:"meta" msgpack:"meta"`
}

// Task is one request at a worker.
type Task struct {
	*nats.Msg
	Worker *Worker
	sent   int
}

// Worker serves one service under one id.
type Worker struct {
	Service, ID string
	Cancels     chan *nats.Msg
	nc          *nats.Conn
	encode      Encode
	serve       func(*Task)
	mutex       sync.Mutex
	beat        Heartbeat
	stop        chan struct{}
	done        sync.WaitGroup
}

// StartWorker subscribes and announces itself. The connection is the caller's.
func StartWorker(nc *nats.Conn, service, id string, encode Encode, serve func(*Task)) (*Worker, error) {
	w := &Worker{Service: service, ID: id, Cancels: make(chan *nats.Msg, 16), nc: nc, encode: encode, serve: serve, stop: make(chan struct{})}
	w.beat = Heartbeat{V: 1, Epoch: time.Now().UnixMilli(), State: "ready", IntervalMs: 1000, Capacity: 8, InflightBy: map[string]int{},
		Class: "gpu", Adapters: []string{"fr-v1"}, Meta: map[string]any{"language": "go"}}
	subject := "waybill.worker." + service + "." + id
	if _, err := nc.Subscribe(subject, func(m *nats.Msg) { go w.take(m) }); err != nil {
		return nil, err
	}
	if _, err := nc.ChanSubscribe(subject+".cancel", w.Cancels); err != nil {
		return nil, err
	}
	announce := func(*nats.Msg) {
		time.AfterFunc(time.Duration(rand.Intn(500))*time.Millisecond, func() { _ = w.Announce("") })
	}
	if _, err := nc.Subscribe("waybill.announce", announce); err != nil {
		return nil, err
	}
	w.done.Add(1)
	go w.beats()
	return w, w.Announce("")
}

// Announce sends a heartbeat now; a state that is named stays.
func (w *Worker) Announce(state string) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if state != "" {
		w.beat.State = state
	}
	payload, err := w.encode(&w.beat)
	if err != nil {
		return err
	}
	return w.nc.Publish("waybill.heartbeat."+w.Service+"."+w.ID, payload)
}

// Leave says good-bye and stops the heartbeats.
func (w *Worker) Leave() error {
	close(w.stop)
	w.done.Wait()
	if err := w.Announce("leaving"); err != nil {
		return err
	}
	return w.nc.Flush()
}

func (w *Worker) beats() {
	defer w.done.Done()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			_ = w.Announce("")
		}
	}
}

func (w *Worker) take(m *nats.Msg) {
	router := m.Header.Get("Waybill-Router")
	w.load(router, 1)
	defer w.load(router, -1)
	w.serve(&Task{Msg: m, Worker: w})
}

func (w *Worker) load(router string, change int) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.beat.Inflight += change
	w.beat.InflightBy[router] += change
}

// Answer is the one answer, or the end of all.
func (t *Task) Answer(data []byte, headers nats.Header) error {
	return t.RespondMsg(&nats.Msg{Data: data, Header: headers})
}

// Send is the next numbered message of a stream.
func (t *Task) Send(data []byte) error {
	t.sent++
	return t.Answer(data, nats.Header{"Waybill-Seq": {strconv.Itoa(t.sent)}})
}

// End is a stream's end, numbered too.
func (t *Task) End() error { return t.Send(nil) }

// Lose skips a number, as if a message had been lost on its way.
func (t *Task) Lose() { t.sent++ }

// Progress says: I have it and work on it.
func (t *Task) Progress() error { return t.Answer(nil, nats.Header{"Waybill-Progress": {"true"}}) }

// Fail answers with an error; a code in retry.on_codes (429, 503) before the first answer is a refusal.
func (t *Task) Fail(code int, text string, data []byte, more nats.Header) error {
	headers := nats.Header{"Nats-Service-Error": {text}, "Nats-Service-Error-Code": {strconv.Itoa(code)}}
	for name, values := range more {
		headers[name] = values
	}
	return t.Answer(data, headers)
}
