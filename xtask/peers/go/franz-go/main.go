// A member of a consumer group, by franz-go. It says what it does as Member.java says it.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"members/member"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	options, ctx := member.Parse(), member.UntilEnd()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(options.Bootstrap...),
		kgo.ConsumerGroup(options.Group),
		kgo.ConsumeTopics(options.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(balancer(options.Assignor())),
		kgo.SessionTimeout(options.Duration("session.timeout.ms", 45*time.Second)),
		kgo.HeartbeatInterval(options.Duration("heartbeat.interval.ms", 3*time.Second)),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(told("assigned")),
		kgo.OnPartitionsRevoked(told("revoked")),
		kgo.OnPartitionsLost(told("lost")),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for ctx.Err() == nil {
		readSome(ctx, client)
	}
	client.CloseAllowingRebalance()
	member.Say("closed")
}

func readSome(ctx context.Context, client *kgo.Client) {
	defer client.AllowRebalance()
	fetches := client.PollFetches(ctx)
	fetches.EachError(func(topic string, partition int32, err error) {
		if ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, topic, partition, err)
		}
	})
	records := fetches.Records()
	next := map[string]map[int32]int64{}
	for _, record := range records {
		member.Say("record %s %d %d", record.Topic, record.Partition, record.Offset)
		if next[record.Topic] == nil {
			next[record.Topic] = map[int32]int64{}
		}
		next[record.Topic][record.Partition] = record.Offset + 1
	}
	if len(records) == 0 {
		return
	}
	if err := client.CommitRecords(context.Background(), records...); err != nil {
		member.Say("refused %v", err)
		return
	}
	for topic, partitions := range next {
		for partition, offset := range partitions {
			member.Say("committed %s %d %d", topic, partition, offset)
		}
	}
}

func told(what string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		member.Say("%s %s", what, member.Partitions(partitions))
	}
}

func balancer(name string) kgo.GroupBalancer {
	switch name {
	case "range":
		return kgo.RangeBalancer()
	case "roundrobin":
		return kgo.RoundRobinBalancer()
	case "sticky":
		return kgo.StickyBalancer()
	}
	fmt.Fprintln(os.Stderr, "no such assignor:", name)
	os.Exit(2)
	return nil
}
