// Clients for tests/failover: each connection to the port that is printed is one client. Its first
// line says which; each further line is a call and is answered with `ok` and results, or with
// `failed` and a text. Words are separated by blanks. Argument: bootstrap servers.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const (
	limit = 30 * time.Second
	poll  = 500 * time.Millisecond
	retry = 50 * time.Millisecond
)

type client struct {
	*kgo.Client
	group       string
	topic       string
	partition   int32
	assignments atomic.Int32
}

func main() {
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("port", listening.Addr().(*net.TCPAddr).Port)
	for {
		connection, err := listening.Accept()
		if err != nil {
			panic(err)
		}
		go converse(connection, strings.Split(os.Args[1], ","))
	}
}

func converse(connection net.Conn, servers []string) {
	defer connection.Close()
	calls := bufio.NewScanner(connection)
	calls.Scan()
	one, err := made(strings.Fields(calls.Text()), servers)
	if err != nil {
		fmt.Fprintln(connection, "failed", err)
		return
	}
	defer one.Close()
	fmt.Fprintln(connection, "ok")
	for calls.Scan() {
		answer, err := one.call(strings.Fields(calls.Text()))
		if err != nil {
			fmt.Fprintln(connection, "failed", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Fprintln(connection, "ok", answer)
		}
	}
}

func made(words, servers []string) (*client, error) {
	one := &client{}
	// By default it waits 250 ms, then twice as long each time, and five seconds for metadata that it
	// has asked for before: longer than a broker lives in a run.
	options := []kgo.Opt{
		kgo.SeedBrokers(servers...),
		kgo.RetryBackoffFn(func(int) time.Duration { return retry }),
		kgo.MetadataMinAge(retry),
	}
	switch words[0] {
	case "producer":
		options = append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	case "register":
		number, err := strconv.Atoi(words[3])
		if err != nil {
			return nil, err
		}
		one.group, one.topic, one.partition = words[1], words[2], int32(number)
		// Later versions have ids of topics instead of names.
		versions := kversion.Stable()
		versions.SetMaxKeyVersion(kmsg.OffsetCommit.Int16(), 9)
		versions.SetMaxKeyVersion(kmsg.OffsetFetch.Int16(), 9)
		options = append(options, kgo.MaxVersions(versions))
	case "member":
		options = append(options,
			kgo.ConsumerGroup(words[1]),
			kgo.ConsumeTopics(words[2]),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.SessionTimeout(limit),
			kgo.HeartbeatInterval(200*time.Millisecond),
			kgo.AutoCommitInterval(100*time.Millisecond),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
				if len(given) > 0 {
					one.assignments.Add(1)
				}
			}),
		)
	}
	var err error
	one.Client, err = kgo.NewClient(options...)
	return one, err
}

func (one *client) call(words []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	switch words[0] {
	case "send":
		partition, err := strconv.Atoi(words[2])
		if err != nil {
			return "", err
		}
		record := &kgo.Record{Topic: words[1], Partition: int32(partition), Value: []byte(words[3])}
		sent, err := one.ProduceSync(ctx, record).First()
		if err != nil {
			return "", err
		}
		return strconv.FormatInt(sent.Offset, 10), nil
	case "commit":
		return "", one.commit(ctx, words[1])
	case "committed":
		return one.committed(ctx)
	default:
		return one.poll()
	}
}

func (one *client) commit(ctx context.Context, offset string) error {
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	var err error
	if partition.Offset, err = strconv.ParseInt(offset, 10, 64); err != nil {
		return err
	}
	partition.Partition = one.partition
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = one.topic, append(topic.Partitions, partition)
	request := kmsg.NewOffsetCommitRequest()
	request.Group, request.Topics = one.group, append(request.Topics, topic)
	response, err := request.RequestWith(ctx, one.Client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
}

func (one *client) committed(ctx context.Context) (string, error) {
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic, topic.Partitions = one.topic, append(topic.Partitions, one.partition)
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group, group.Topics = one.group, append(group.Topics, topic)
	request := kmsg.NewOffsetFetchRequest()
	request.Groups = append(request.Groups, group)
	response, err := request.RequestWith(ctx, one.Client)
	if err != nil {
		return "", err
	}
	answered := response.Groups[0]
	if err := kerr.ErrorForCode(answered.ErrorCode); err != nil {
		return "", err
	}
	found := answered.Topics[0].Partitions[0]
	return strconv.FormatInt(found.Offset, 10), kerr.ErrorForCode(found.ErrorCode)
}

// poll returns how often the member was given partitions, and records.
func (one *client) poll() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), poll)
	defer cancel()
	fetches := one.PollFetches(ctx)
	words := []string{strconv.Itoa(int(one.assignments.Load()))}
	fetches.EachRecord(func(each *kgo.Record) {
		words = append(words, fmt.Sprint(each.Topic, " ", each.Partition, " ", each.Offset, " ", string(each.Value)))
	})
	return strings.Join(words, " "), nil
}
