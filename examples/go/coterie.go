// Package orders shows how a Go service is tested with Coterie, a Kafka broker for tests.
package orders

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Coterie is a broker in memory with a control port.
type Coterie struct {
	BootstrapServers string `json:"bootstrap_servers"`
	URL              string `json:"control_url"`
	Token            string `json:"token"`
}

// StartCoterie starts a broker that ends with the test, or with its process.
func StartCoterie(t *testing.T) *Coterie {
	t.Helper()
	command := os.Getenv("COTERIE")
	if command == "" {
		command = "coterie"
	}
	process := exec.Command(command, "serve", "--port=0", "--data-dir=:memory:", "--log-level=error",
		"--control=0", "--control-file=-", "--stop-with-input",
		"--config=group.initial.rebalance.delay.ms=0")
	process.Stderr = os.Stderr
	input, err := process.StdinPipe()
	check(t, err)
	output, err := process.StdoutPipe()
	check(t, err)
	check(t, process.Start())
	coterie := &Coterie{}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "{") {
			check(t, json.Unmarshal(lines.Bytes(), coterie))
			break
		}
	}
	t.Cleanup(func() {
		input.Close() // its end stops the broker
		if err := process.Wait(); err != nil {
			t.Error("coterie:", err)
		}
	})
	return coterie
}

// Call calls an operation of the control port (GET /docs lists them) and decodes its answer.
func (c *Coterie) Call(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	check(t, c.Try(method, path, body, answer))
}

// Try is Call for a test that expects an error.
func (c *Coterie) Try(method, path string, body, answer any) error {
	content := []byte("{}")
	if body != nil {
		content, _ = json.Marshal(body)
	}
	request, _ := http.NewRequest(method, c.URL+path, bytes.NewReader(content))
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		var failed struct{ Error, Remedy string }
		_ = json.Unmarshal(data, &failed)
		return fmt.Errorf("%s\n(%s)", failed.Error, failed.Remedy)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(data, answer)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
