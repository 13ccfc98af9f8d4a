// A kfake of one broker that listens at the port of the command line, until standard input ends.
package main

import (
	"io"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	cluster, err := kfake.NewCluster(kfake.Ports(port), kfake.NumBrokers(1))
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	io.Copy(io.Discard, os.Stdin)
}
