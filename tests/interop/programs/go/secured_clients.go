// Clients of a secured broker: each line of standard input is a case, as JSON, and each is answered
// with a line {"error": ""}. A case produces a record, consumes it in a group, commits, and asks for
// what is committed.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const limit = 30 * time.Second

type wanted struct {
	Bootstrap, Topic, Group, Value                    string
	Tls                                               bool
	Mechanism, Name, Password, Authority, Certificate string
	Key, Token                                        string
	IsToken                                           bool `json:"is_token"`
	ConsumesOnly                                      bool `json:"consumes_only"`
}

func main() {
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var one wanted
		err := json.Unmarshal(input.Bytes(), &one)
		if err == nil {
			err = run(one)
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		answer, _ := json.Marshal(map[string]string{"error": text})
		fmt.Printf("answer %s\n", answer)
	}
}

func run(one wanted) error {
	options, err := security(one)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if !one.ConsumesOnly {
		if err := produce(ctx, one, options); err != nil {
			return err
		}
	}
	return consume(ctx, one, options)
}

func security(one wanted) ([]kgo.Opt, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(one.Bootstrap),
		kgo.RecordRetries(2),
		kgo.RequestRetries(2),
		kgo.RetryTimeout(5 * time.Second),
	}
	if one.Tls {
		pem, err := os.ReadFile(one.Authority)
		if err != nil {
			return nil, err
		}
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(pem)
		if one.Certificate != "" {
			pair, err := tls.LoadX509KeyPair(one.Certificate, one.Key)
			if err != nil {
				return nil, err
			}
			config.Certificates = []tls.Certificate{pair}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	var mechanism sasl.Mechanism
	user := scram.Auth{User: one.Name, Pass: one.Password, IsToken: one.IsToken}
	switch one.Mechanism {
	case "":
		return options, nil
	case "PLAIN":
		mechanism = plain.Auth{User: one.Name, Pass: one.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = user.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		mechanism = user.AsSha512Mechanism()
	case "OAUTHBEARER":
		mechanism = oauth.Auth{Token: one.Token}.AsMechanism()
	}
	return append(options, kgo.SASL(mechanism)), nil
}

func produce(ctx context.Context, one wanted, options []kgo.Opt) error {
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	record := &kgo.Record{Topic: one.Topic, Value: []byte(one.Value)}
	return client.ProduceSync(ctx, record).FirstErr()
}

func consume(ctx context.Context, one wanted, options []kgo.Opt) error {
	client, err := kgo.NewClient(append(options,
		kgo.ConsumerGroup(one.Group),
		kgo.ConsumeTopics(one.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit())...)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, record := range fetches.Records() {
			if string(record.Value) != one.Value {
				continue
			}
			if err := client.CommitRecords(ctx, record); err != nil {
				return err
			}
			committed := client.CommittedOffsets()[record.Topic][record.Partition]
			if committed.Offset != record.Offset+1 {
				return errors.New("another offset is committed")
			}
			return nil
		}
	}
}
