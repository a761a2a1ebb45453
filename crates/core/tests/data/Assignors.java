// Has Kafka's own assignors divide many groups, and prints what came of it: `cargo xtask assignors` runs this on Kafka's
// jars and keeps the output as assignors.json, which the tests of ottla-core compare ours with.
//
// Nothing here depends on the run: random cases come from fixed seeds. Where the sticky assignor goes by the order of a
// HashMap, its answer depends on nothing but how the names hash. So each case is put to it several times, with all names
// lengthened alike, which keeps their order; "answers" lists the different ones.

import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

public class Assignors {
    static final String[] RACKS = {"east", "north", "west"};
    static final List<Salt> SALTS = List.of(
        new Salt("", ""), new Salt("x", ""), new Salt("", "y"), new Salt("of-", "-to"), new Salt("", "-1234567"),
        new Salt("qqq", "-z"), new Salt("", "--"), new Salt("0a", "bb"));

    static final List<String> lines = new ArrayList<>();

    /** Called with the version of the jars. */
    public static void main(String[] args) {
        shapes();
        names();
        for (int seed = 0; seed < 40; seed++) plain(new Random(seed), "random " + seed);
        for (int seed = 0; seed < 40; seed++) racks(new Random(1000 + seed), "racks " + seed);
        for (int seed = 0; seed < 16; seed++) history(new Random(2000 + seed), true, "same topics " + seed);
        for (int seed = 0; seed < 24; seed++) history(new Random(3000 + seed), false, "different topics " + seed);
        for (int seed = 0; seed < 24; seed++) conflict(new Random(4000 + seed), seed % 2 == 0, "conflict " + seed);
        userData();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        out.println("{\"kafka\":" + quoted(args[0]) + ",");
        out.println("\"messages\":[\n" + String.join(",\n", messages()) + "\n],");
        out.println("\"groups\":[\n" + String.join(",\n", lines) + "\n]}");
    }

    // --- cases ---

    /** All small shapes: members that ask for the same, and so many topics of so many partitions. */
    static void shapes() {
        for (int members = 1; members <= 4; members++)
            for (int[] counts : new int[][] {{1}, {3}, {7}, {1, 1, 1}, {2, 3, 5}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
                Group group = new Group();
                for (int i = 0; i < counts.length; i++) group.topics.put("t" + i, counts[i]);
                for (int i = 0; i < members; i++) group.member("m" + i, group.topics.keySet());
                ask(members + " members, partitions " + Arrays.toString(counts), group, "range", "roundrobin", "sticky");
            }
    }

    /** The order of names that are not ASCII: Java's is by UTF-16 units. */
    static void names() {
        Group group = new Group();
        group.topics.put("t", 5);
        for (String id : List.of("\uff5e-1", "\ud83d\ude00-2", "z-3", "\u00e9-4")) group.member(id, Set.of("t"));
        ask("names beyond ASCII", group, "range", "roundrobin", "sticky");
    }

    /** Members with different topics, some missing, some static. */
    static void plain(Random random, String name) {
        Group group = new Group();
        topics(random, group);
        int members = 1 + random.nextInt(6);
        for (int i = 0; i < members; i++) {
            Member member = group.member("m" + i, some(random, group));
            if (random.nextInt(3) == 0) member.instance = "i" + (9 - i);
        }
        ask(name, group, "range", "roundrobin", "sticky");
    }

    /** Replicas in some racks, members that say theirs or do not. */
    static void racks(Random random, String name) {
        Group group = new Group();
        boolean alike = random.nextBoolean();
        int topics = 1 + random.nextInt(4), count = 1 + random.nextInt(8);
        for (int i = 0; i < topics; i++) {
            int partitions = alike ? count : 1 + random.nextInt(8);
            group.topics.put("t" + i, partitions);
            List<List<String>> racks = new ArrayList<>();
            for (int p = 0; p < partitions; p++) racks.add(replicas(random));
            group.racks.put("t" + i, racks);
        }
        int members = 1 + random.nextInt(5);
        for (int i = 0; i < members; i++) {
            Member member = group.member("m" + i, random.nextInt(3) > 0 ? group.topics.keySet() : some(random, group));
            if (random.nextInt(4) > 0) member.rack = RACKS[random.nextInt(RACKS.length)];
        }
        ask(name, group, "range");
    }

    static List<String> replicas(Random random) {
        List<String> racks = new ArrayList<>(List.of(RACKS));
        Collections.shuffle(racks, random);
        return racks.subList(0, 1 + random.nextInt(2)).stream().sorted().collect(Collectors.toList());
    }

    /** Rounds of one group: members come and go, sleep through a round, ask for other topics; topics grow, come and go. */
    static void history(Random random, boolean same, String name) {
        Group group = new Group();
        topics(random, group);
        int joined = 0;
        for (int round = 0; round < 5; round++) {
            for (int joining = round == 0 ? 2 + random.nextInt(4) : random.nextInt(3); joining > 0; joining--)
                group.member("m" + (char) ('a' + (joined++ * 7) % 26) + joined % 10, same ? all(group) : some(random, group));
            if (round > 0) change(random, group, same, round);
            Map<String, List<TopicPartition>> answer = ask(name + ", round " + round, group, "sticky");
            for (Member member : group.members.values()) {
                // Who sleeps keeps what it thinks it has.
                if (round > 0 && random.nextInt(6) == 0) continue;
                member.owned = answer.get(member.id);
                member.generation = round + 1;
            }
        }
    }

    static void change(Random random, Group group, boolean same, int round) {
        List<String> ids = new ArrayList<>(group.members.keySet());
        for (String id : ids)
            if (group.members.size() > 1 && random.nextInt(4) == 0) group.members.remove(id);
        List<String> topics = new ArrayList<>(group.topics.keySet());
        String topic = topics.get(random.nextInt(topics.size()));
        switch (random.nextInt(5)) {
            case 0 -> group.topics.merge(topic, 3, Integer::sum);
            case 1 -> {
                if (topics.size() > 1) group.topics.remove(topic);
            }
            // None comes back: where one has fewer partitions than some member remembers, Java's own code fails.
            case 2 -> group.topics.put("u" + round, 4);
            default -> { }
        }
        for (Member member : group.members.values())
            if (same) member.topics = all(group);
            else if (random.nextInt(4) == 0) member.topics = some(random, group);
    }

    /** Members that claim the same, in the same generation and in different ones. */
    static void conflict(Random random, boolean same, String name) {
        Group group = new Group();
        topics(random, group);
        int members = 2 + random.nextInt(4);
        for (int i = 0; i < members; i++) {
            Member member = group.member("m" + i, same ? all(group) : some(random, group));
            member.owned = new ArrayList<>();
            member.generation = 3 + random.nextInt(3);
            group.topics.forEach((topic, count) -> {
                for (int p = 0; p < count; p++)
                    if (random.nextInt(3) == 0) member.owned.add(new TopicPartition(topic, p));
            });
        }
        ask(name, group, "sticky");
    }

    /** User data of version 0, and what is none. */
    static void userData() {
        for (String form : List.of("version 0", "nonsense", "too short")) {
            Group group = new Group();
            group.topics.put("t", 6);
            Member old = group.member("mb", Set.of("t"));
            old.owned = List.of(new TopicPartition("t", 4), new TopicPartition("t", 5));
            old.generation = 2;
            old.form = form;
            group.member("ma", Set.of("t"));
            Member other = group.member("mc", Set.of("t"));
            other.owned = List.of(new TopicPartition("t", 0), new TopicPartition("t", 3));
            other.generation = 1;
            ask("user data: " + form, group, "sticky");
        }
    }

    static void topics(Random random, Group group) {
        int topics = 1 + random.nextInt(5);
        int most = 1 + random.nextInt(9);
        for (int i = 0; i < topics; i++) group.topics.put("t" + i, 1 + random.nextInt(most));
    }

    static List<String> all(Group group) {
        return new ArrayList<>(group.topics.keySet());
    }

    /** At least one, now and then with one that is missing. */
    static List<String> some(Random random, Group group) {
        List<String> all = all(group);
        Collections.shuffle(all, random);
        List<String> some = new ArrayList<>(all.subList(0, 1 + random.nextInt(all.size())));
        if (random.nextInt(5) == 0) some.add("gone");
        Collections.sort(some);
        return some;
    }

    // --- a group, and how it is put to the assignors ---

    static class Group {
        final Map<String, Integer> topics = new TreeMap<>();
        final Map<String, List<List<String>>> racks = new HashMap<>();
        final Map<String, Member> members = new LinkedHashMap<>();

        Member member(String id, Iterable<String> topics) {
            Member member = new Member();
            member.id = id;
            topics.forEach(member.topics::add);
            members.put(id, member);
            return member;
        }
    }

    static class Member {
        String id;
        List<String> topics = new ArrayList<>();
        String instance;
        String rack;
        /** What it was assigned last; null if nothing ever was. */
        List<TopicPartition> owned;
        int generation = -1;
        String form = "version 1";

        Subscription subscription(Salt salt) {
            Subscription subscription = new Subscription(
                salt.all(topics), userData(salt), List.of(), generation, Optional.ofNullable(rack));
            subscription.setGroupInstanceId(Optional.ofNullable(instance).map(salt::on));
            return subscription;
        }

        @SuppressWarnings("removal") // the only implementation of what takes its place is internal
        ByteBuffer userData(Salt salt) {
            if (owned == null) return null;
            List<TopicPartition> partitions =
                owned.stream().map(at -> new TopicPartition(salt.on(at.topic()), at.partition())).toList();
            StickyAssignor assignor = new StickyAssignor();
            assignor.onAssignment(new Assignment(partitions),
                new ConsumerGroupMetadata("group", generation, id, Optional.empty()));
            ByteBuffer data = assignor.subscriptionUserData(Set.of());
            return switch (form) {
                case "version 0" -> data.slice(0, data.remaining() - 4);
                case "too short" -> data.slice(0, data.remaining() - 5);
                case "nonsense" -> ByteBuffer.wrap("nonsense".getBytes(StandardCharsets.UTF_8));
                default -> data;
            };
        }
    }

    record Salt(String before, String after) {
        String on(String name) {
            return before + name + after;
        }

        String off(String name) {
            return name.substring(before.length(), name.length() - after.length());
        }

        List<String> all(List<String> names) {
            return names.stream().map(this::on).collect(Collectors.toList());
        }
    }

    /** Puts the group to those assignors, keeps their answers, and returns the last one's. */
    static Map<String, List<TopicPartition>> ask(String name, Group group, String... assignors) {
        Map<String, Map<String, List<TopicPartition>>> first = new LinkedHashMap<>();
        Map<String, Set<String>> answers = new LinkedHashMap<>();
        for (String assignor : assignors)
            for (Salt salt : SALTS) {
                Map<String, List<TopicPartition>> answer = answer(assignor, group, salt);
                first.putIfAbsent(assignor, answer);
                boolean inOrder = assignor.equals("roundrobin");
                answers.computeIfAbsent(assignor, any -> new LinkedHashSet<>()).add(json(answer, inOrder));
            }
        List<String> parts = new ArrayList<>();
        answers.forEach((assignor, all) -> parts.add(quoted(assignor) + ":[" + String.join(",", all) + "]"));
        lines.add("{\"name\":" + quoted(name) + ",\"topics\":" + topicsJson(group) + ",\"members\":["
            + group.members.values().stream().map(Assignors::json).collect(Collectors.joining(","))
            + "],\"answers\":{" + String.join(",", parts) + "}}");
        return first.get(assignors[assignors.length - 1]);
    }

    static Map<String, List<TopicPartition>> answer(String name, Group group, Salt salt) {
        ConsumerPartitionAssignor assignor = switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            default -> new StickyAssignor();
        };
        Map<String, Subscription> subscriptions = new HashMap<>();
        group.members.forEach((id, member) -> subscriptions.put(salt.on(id), member.subscription(salt)));
        Map<String, Assignment> given =
            assignor.assign(cluster(group, salt), new GroupSubscription(subscriptions)).groupAssignment();
        Map<String, List<TopicPartition>> answer = new TreeMap<>();
        given.forEach((id, assignment) -> answer.put(salt.off(id), assignment.partitions().stream()
            .map(at -> new TopicPartition(salt.off(at.topic()), at.partition())).collect(Collectors.toList())));
        return answer;
    }

    static Cluster cluster(Group group, Salt salt) {
        List<Node> nodes = new ArrayList<>();
        for (String rack : RACKS) nodes.add(new Node(nodes.size(), "host", 1, rack));
        Node nowhere = new Node(nodes.size(), "host", 1);
        nodes.add(nowhere);
        List<PartitionInfo> partitions = new ArrayList<>();
        group.topics.forEach((topic, count) -> {
            for (int p = 0; p < count; p++) {
                List<List<String>> racks = group.racks.get(topic);
                Node[] replicas = racks == null ? new Node[] {nowhere} : racks.get(p).stream()
                    .map(rack -> nodes.get(Arrays.asList(RACKS).indexOf(rack))).toArray(Node[]::new);
                partitions.add(new PartitionInfo(salt.on(topic), p, replicas[0], replicas, replicas));
            }
        });
        return new Cluster("cluster", nodes, partitions, Set.of(), Set.of());
    }

    // --- what members and leader tell each other ---

    static List<String> messages() {
        List<String> messages = new ArrayList<>();
        List<TopicPartition> owned =
            List.of(new TopicPartition("u", 1), new TopicPartition("t", 10), new TopicPartition("t", 2));
        Subscription full = new Subscription(List.of("u", "t"), ByteBuffer.wrap(new byte[] {1, 2, 3}), owned, 7, Optional.of("east"));
        Subscription bare = new Subscription(List.of("t"));
        for (short version = 0; version <= 3; version++) {
            messages.add("{\"says\":\"full subscription\",\"version\":" + version + ",\"bytes\":"
                + hex(ConsumerProtocol.serializeSubscription(full, version)) + "}");
            messages.add("{\"says\":\"bare subscription\",\"version\":" + version + ",\"bytes\":"
                + hex(ConsumerProtocol.serializeSubscription(bare, version)) + "}");
            messages.add("{\"says\":\"assignment\",\"version\":" + version + ",\"bytes\":"
                + hex(ConsumerProtocol.serializeAssignment(new Assignment(
                    List.of(new TopicPartition("t", 2), new TopicPartition("t", 10), new TopicPartition("u", 1))), version)) + "}");
        }
        return messages;
    }

    // --- JSON ---

    static String topicsJson(Group group) {
        return "{" + group.topics.entrySet().stream().map(e -> quoted(e.getKey()) + ":" + partitions(group, e))
            .collect(Collectors.joining(",")) + "}";
    }

    /** The number of partitions; where racks are known, a list with those of each. */
    static String partitions(Group group, Map.Entry<String, Integer> topic) {
        List<List<String>> racks = group.racks.get(topic.getKey());
        if (racks == null) return topic.getValue().toString();
        return "[" + racks.stream().map(Assignors::list).collect(Collectors.joining(",")) + "]";
    }

    static String json(Member member) {
        StringBuilder json = new StringBuilder("{\"id\":" + quoted(member.id) + ",\"topics\":" + list(member.topics));
        if (member.instance != null) json.append(",\"instance\":").append(quoted(member.instance));
        if (member.rack != null) json.append(",\"rack\":").append(quoted(member.rack));
        if (member.owned != null) {
            if (member.form.equals("version 1")) {
                json.append(",\"owned\":").append(inOrder(member.owned));
                json.append(",\"generation\":").append(member.generation);
            }
            json.append(",\"data\":").append(hex(member.userData(SALTS.get(0))));
        }
        return json.append("}").toString();
    }

    /** By topic; in the order of the list where that is certain. */
    static String json(Map<String, List<TopicPartition>> answer, boolean inOrder) {
        return "{" + answer.entrySet().stream()
            .map(e -> quoted(e.getKey()) + ":" + (inOrder ? inOrder(e.getValue()) : json(e.getValue())))
            .collect(Collectors.joining(",")) + "}";
    }

    static String inOrder(List<TopicPartition> partitions) {
        Map<String, List<Integer>> topics = new LinkedHashMap<>();
        partitions.forEach(at -> topics.computeIfAbsent(at.topic(), any -> new ArrayList<>()).add(at.partition()));
        return "{" + topics.entrySet().stream().map(e -> quoted(e.getKey()) + ":" + e.getValue().toString().replace(" ", ""))
            .collect(Collectors.joining(",")) + "}";
    }

    static String json(List<TopicPartition> partitions) {
        List<TopicPartition> sorted = new ArrayList<>(partitions);
        sorted.sort((a, b) -> a.topic().equals(b.topic()) ? a.partition() - b.partition() : a.topic().compareTo(b.topic()));
        return inOrder(sorted);
    }

    static String list(List<String> names) {
        return "[" + names.stream().map(Assignors::quoted).collect(Collectors.joining(",")) + "]";
    }

    static String hex(ByteBuffer bytes) {
        byte[] copy = new byte[bytes.remaining()];
        bytes.duplicate().get(copy);
        return quoted(HexFormat.of().formatHex(copy));
    }

    /** No name here has anything that JSON would have to escape. */
    static String quoted(String text) {
        return "\"" + text + "\"";
    }
}
