// Package member is what the two programs share: how they are called, what they say, and when they end. It is what
// Member.java does.
package member

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options are those of the command line: PROGRAM BOOTSTRAP GROUP TOPIC,... [PROPERTY=VALUE]...
type Options struct {
	Bootstrap, Topics []string
	Group             string
	properties        map[string]string
}

// Parse reads the command line.
func Parse() Options {
	if len(os.Args) < 4 {
		fail("usage: PROGRAM BOOTSTRAP GROUP TOPIC,... [PROPERTY=VALUE]...")
	}
	properties := map[string]string{}
	for _, arg := range os.Args[4:] {
		name, value, _ := strings.Cut(arg, "=")
		properties[name] = value
	}
	return Options{strings.Split(os.Args[1], ","), strings.Split(os.Args[3], ","), os.Args[2], properties}
}

// Duration is the value of a property in milliseconds.
func (o Options) Duration(name string, otherwise time.Duration) time.Duration {
	text, given := o.properties[name]
	if !given {
		return otherwise
	}
	ms, err := strconv.Atoi(text)
	if err != nil {
		fail("%s: %v", name, err)
	}
	return time.Duration(ms) * time.Millisecond
}

// Assignor is the name of the one to be used.
func (o Options) Assignor() string {
	if name, given := o.properties["partition.assignment.strategy"]; given {
		return name
	}
	return "range"
}

// UntilEnd is done when standard input ends.
func UntilEnd() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}

var (
	mutex sync.Mutex
	out   = bufio.NewWriter(os.Stdout)
)

// Say prints a line at once.
func Say(format string, args ...any) {
	mutex.Lock()
	defer mutex.Unlock()
	fmt.Fprintf(out, format+"\n", args...)
	_ = out.Flush()
}

// Partitions are shown as TOPIC:PARTITION.
func Partitions(owned map[string][]int32) string {
	var shown []string
	for topic, partitions := range owned {
		for _, partition := range partitions {
			shown = append(shown, fmt.Sprintf("%s:%d", topic, partition))
		}
	}
	sort.Strings(shown)
	return strings.Join(shown, " ")
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(2)
}
