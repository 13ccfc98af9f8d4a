// A consumer for `coterie check-client`, with franz-go.
//
//	go run . {bootstrap} {topic} {group} {assignor} {instance_id} {protocol}
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

func main() {
	bootstrap, topic, group, assignor := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.Balancers(balancers[assignor]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if len(os.Args) > 5 && os.Args[5] != "" {
		options = append(options, kgo.InstanceID(os.Args[5]))
	}
	if len(os.Args) > 6 && os.Args[6] == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	running, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for running.Err() == nil {
		fetches := client.PollFetches(running)
		fetches.EachRecord(func(record *kgo.Record) {
			value := string(record.Value)
			if seconds, found := strings.CutPrefix(value, "sleep "); found {
				length, _ := strconv.ParseFloat(seconds, 64)
				time.Sleep(time.Duration(length * float64(time.Second)))
			}
			fmt.Println(record.Topic, record.Partition, record.Offset, value)
		})
	}
	// What was polled last is committed only when it is marked or polled past.
	_ = client.CommitUncommittedOffsets(context.Background())
	client.Close()
}
