// A member of a consumer group, by kafka-go. It says what it does as Member.java says it.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"members/member"

	"github.com/segmentio/kafka-go"
)

func main() {
	options, ctx := member.Parse(), member.UntilEnd()
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                options.Group,
		Brokers:           options.Bootstrap,
		Topics:            options.Topics,
		GroupBalancers:    []kafka.GroupBalancer{balancer(options.Assignor())},
		HeartbeatInterval: options.Duration("heartbeat.interval.ms", 3*time.Second),
		SessionTimeout:    options.Duration("session.timeout.ms", 45*time.Second),
		RebalanceTimeout:  30 * time.Second,
		JoinGroupBackoff:  500 * time.Millisecond,
		StartOffset:       kafka.FirstOffset,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for ctx.Err() == nil {
		generation, err := group.Next(ctx)
		if ctx.Err() != nil {
			break
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		take(options, generation)
	}
	_ = group.Close()
	member.Say("closed")
}

func take(options member.Options, generation *kafka.Generation) {
	owned := map[string][]int32{}
	for topic, assignments := range generation.Assignments {
		for _, assignment := range assignments {
			owned[topic] = append(owned[topic], int32(assignment.ID))
			generation.Start(func(ctx context.Context) {
				read(ctx, options, generation, topic, assignment)
			})
		}
	}
	member.Say("assigned %s", member.Partitions(owned))
	generation.Start(func(ctx context.Context) {
		<-ctx.Done()
		member.Say("revoked %s", member.Partitions(owned))
	})
}

// A Reader of a generation may only read, so each partition has one of its own without a group.
func read(
	ctx context.Context, options member.Options, generation *kafka.Generation, topic string,
	at kafka.PartitionAssignment,
) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: options.Bootstrap, Topic: topic, Partition: at.ID, MaxWait: 200 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(at.Offset); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	for ctx.Err() == nil {
		message, err := reader.FetchMessage(ctx)
		if ctx.Err() != nil {
			return
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		member.Say("record %s %d %d", topic, at.ID, message.Offset)
		next := message.Offset + 1
		if err := generation.CommitOffsets(map[string]map[int]int64{topic: {at.ID: next}}); err != nil {
			member.Say("refused %v", err)
			continue
		}
		member.Say("committed %s %d %d", topic, at.ID, next)
	}
}

func balancer(name string) kafka.GroupBalancer {
	switch name {
	case "range":
		return kafka.RangeGroupBalancer{}
	case "roundrobin":
		return kafka.RoundRobinGroupBalancer{}
	}
	fmt.Fprintln(os.Stderr, "no such assignor:", name)
	os.Exit(2)
	return nil
}
