// A worker in Go that answers with a stream: a request for N gets the numbers 1 to N. NATS_URL=... worker_go SERVICE ID
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

func main() {
	service, id, epoch := os.Args[1], os.Args[2], time.Now().UnixMilli()
	nc, err := nats.Connect(os.Getenv("NATS_URL"), nats.UserInfo(os.Getenv("NATS_USER"), os.Getenv("NATS_PASSWORD")), nats.MaxReconnects(-1))
	if err != nil {
		panic(err)
	}
	beat := func() {
		nc.Publish("waybill.heartbeat."+service+"."+id, fmt.Appendf(nil, `{"epoch":%d,"interval_ms":1000}`, epoch))
	}
	nc.Subscribe("waybill.announce", func(*nats.Msg) { beat() })
	nc.Subscribe("waybill.worker."+service+"."+id, func(m *nats.Msg) {
		send := func(seq int, data string) {
			m.RespondMsg(&nats.Msg{Data: []byte(data), Header: nats.Header{"Waybill-Seq": {strconv.Itoa(seq)}}})
		}
		n, err := strconv.Atoi(string(m.Data))
		if err != nil {
			m.RespondMsg(&nats.Msg{Header: nats.Header{"Nats-Service-Error-Code": {"400"}, "Nats-Service-Error": {"not a number"}}})
			return
		}
		for i := 1; i <= n; i++ {
			send(i, strconv.Itoa(i))
		}
		send(n+1, "") // the end
	})
	for ; ; time.Sleep(time.Second) {
		beat()
	}
}
