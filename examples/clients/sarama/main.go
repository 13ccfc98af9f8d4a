// A consumer for `coterie check-client`, with sarama.
//
//	go run . {bootstrap} {topic} {group} {assignor} {instance_id}
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

var strategies = map[string]sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange(),
	"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	"sticky":     sarama.NewBalanceStrategySticky(),
}

type printer struct{}

func (printer) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (printer) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (printer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case record, open := <-claim.Messages():
			if !open {
				return nil
			}
			value := string(record.Value)
			if seconds, found := strings.CutPrefix(value, "sleep "); found {
				length, _ := strconv.ParseFloat(seconds, 64)
				time.Sleep(time.Duration(length * float64(time.Second)))
			}
			fmt.Println(record.Topic, record.Partition, record.Offset, value)
			session.MarkMessage(record, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func main() {
	bootstrap, topic, group, assignor := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	strategy, found := strategies[assignor]
	if !found {
		fmt.Fprintln(os.Stderr, "sarama has no assignor", assignor)
		os.Exit(1)
	}
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Interval = 5 * time.Second
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	if len(os.Args) > 5 {
		config.Consumer.Group.InstanceId = os.Args[5]
	}
	member, err := sarama.NewConsumerGroup([]string{bootstrap}, group, config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	running, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for running.Err() == nil {
		err := member.Consume(running, []string{topic}, printer{})
		if errors.Is(err, sarama.ErrClosedConsumerGroup) {
			break
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(time.Second)
		}
	}
	if err := member.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
