package orders

// Consumers of franz-go, tested against real group rules: go mod tidy && go test.

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

type object = map[string]any

type group struct {
	State   string
	Members []struct {
		ClientID string `json:"client_id"`
	}
	Lag map[string]int64
}

// consume starts a consumer that reads until the test ends.
func consume(t *testing.T, coterie *Coterie, clientID, groupID, topic string) {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(coterie.BootstrapServers), kgo.ClientID(clientID),
		kgo.ConsumerGroup(groupID), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	check(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			client.PollFetches(ctx)
			_ = client.CommitUncommittedOffsets(ctx)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		client.Close()
	})
}

func TestOrdersAreBilled(t *testing.T) {
	coterie := StartCoterie(t)
	orders := object{"name": "orders", "partitions": 2, "records": []string{"espresso", "latte"}}
	coterie.Call(t, "POST", "/topics", orders, nil)
	consume(t, coterie, "one", "billing", "orders")
	consume(t, coterie, "two", "billing", "orders")
	var billing group
	coterie.Call(t, "POST", "/groups/billing/wait/stable", object{"members": 2}, &billing)
	if len(billing.Members) != 2 {
		t.Error("two members were expected:", billing)
	}
	coterie.Call(t, "POST", "/groups/billing/wait/committed", nil, &billing)
	if billing.Lag["orders-0"] != 0 || billing.Lag["orders-1"] != 0 {
		t.Error("nothing should be left to read:", billing.Lag)
	}
}

func TestConsumerJoinsAnewAfterAFault(t *testing.T) {
	coterie := StartCoterie(t)
	coterie.Call(t, "POST", "/topics", object{"name": "bills"}, nil)
	var fault struct {
		ID int `json:"fault_id"`
	}
	action := object{"kind": "AnswerError", "error": "COORDINATOR_LOAD_IN_PROGRESS"}
	coterie.Call(t, "POST", "/faults", object{"action": action, "api": "JoinGroup", "times": 2}, &fault)
	consume(t, coterie, "one", "printing", "bills")
	coterie.Call(t, "POST", "/groups/printing/wait/assigned", object{"topics": []string{"bills"}}, nil)
	coterie.Call(t, "POST", "/faults/1/must_have_hit", object{"times": 2}, nil)
	var joins []object
	coterie.Call(t, "GET", "/requests/JoinGroup?client_id=one", nil, &joins)
	if fault.ID != 1 || len(joins) < 3 {
		t.Error("the consumer should have joined again:", joins)
	}
}

func TestFailedWaitSaysWhy(t *testing.T) {
	err := StartCoterie(t).Try("POST", "/groups/nobody/wait/stable", object{"timeout_s": 0.1}, nil)
	if err == nil || !strings.Contains(err.Error(), "group 'nobody' does not exist") {
		t.Error("the reason is missing:", err)
	}
}
