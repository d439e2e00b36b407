// Command kfake plays all brokers of franz-go's fake cluster in one process.
//
// The library listens on the loopback; a run may have its brokers at other addresses.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	brokers := flag.String("brokers", "", "HOST:PORT,... where brokers 0, 1, ... listen")
	data := flag.String("data", "", "folder that keeps everything; empty: memory does")
	sync := flag.Bool("sync", false, "flush each batch")
	debug := flag.Bool("debug", false, "log each step of each group")
	flag.Parse()
	addresses := strings.Split(*brokers, ",")
	ports := make([]int, len(addresses))
	for i, address := range addresses {
		_, port, err := net.SplitHostPort(address)
		if err == nil {
			ports[i], err = strconv.Atoi(port)
		}
		if err != nil {
			fail(err)
		}
	}
	next := 0
	listen := func(network, _ string) (net.Listener, error) {
		// The library asks for one listener a broker, in order.
		next++
		return net.Listen(network, addresses[next-1])
	}
	level := kfake.LogLevelInfo
	if *debug {
		level = kfake.LogLevelDebug
	}
	options := []kfake.Opt{
		kfake.Ports(ports...),
		kfake.ListenFn(listen),
		kfake.WithLogger(kfake.BasicLogger(os.Stderr, level)),
	}
	if *data != "" {
		options = append(options, kfake.DataDir(*data))
	}
	if *sync {
		options = append(options, kfake.SyncWrites())
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		fail(err)
	}
	<-ended
	cluster.Close()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "ERROR", err)
	os.Exit(1)
}
