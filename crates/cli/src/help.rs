//! What stands below the options in the help of each command, and in its manual page.

pub(crate) const ALL: &str = "\
Examples:
  ottla demo                                  needs no Kafka
  ottla topics                                which topics there are
  ottla read orders                           from the oldest record on, and follow
  ottla read orders --tail 10                 the last ten records
  ottla read orders --from @-15m --json       what came in the last quarter of an hour, and follow
  ottla read orders --key '/^4711$/' --from '@yesterday 12:00' --until '@yesterday 18:00' --json
                                              yesterday afternoon's with the key 4711
  ottla offsets orders                        how far its partitions reach
  ottla doctor                                why a cluster cannot be reached
  echo hello | ottla -b kafka:9092 produce orders

ottla COMMAND --help has more examples. A command that reaches no broker within 10 s gives up. Ctrl-C ends one in good
order.

Exit codes: 0 done (also by Ctrl-C), 1 failed, 2 wrong usage.";

pub(crate) const READ: &str = "\
FORMAT, in kcat's letters:
  %t topic       %o offset                         %k key              %s value
  %p partition   %T timestamp (ms since 1970)      %K length of key    %S length of value (-1 for null)
  %h headers (name=value,name=value)               \\n \\t \\r \\\\ \\xNN and %% for a percent sign
  Bytes are printed as they are; null prints nothing.

TIME: 2026-11-30T08:00:00Z, 2026-11-30T08:00 or 2026-11-30 (local time), 08:00 (of today), today, yesterday,
'yesterday 08:00', now, -90s, -15m, -2h, -1d (before now), or 1796025600000 (ms since 1970). It means the first record
that is not older. --until @TIME never waits: in a partition without a record that late it stops at the end as it was at
the start.

--key, --value and --header look into the bytes as they are in the topic, before any formatting. A text is looked for
anywhere, and so is a /REGEX/ ((?i) at its beginning ignores case; /^4711$/ is exactly 4711); null holds nothing. --skip
and --sample then count what is left, -n what is printed. --tail finds the last ones that are left, however far back they
are; it prints those of a partition in the order of their offsets.

Records of transactions that were aborted, or are still open, are printed as all others.

Reading ends with exit code 0 at --until, after --count records, or by Ctrl-C. If no broker is reached within 10 s, it
gives up with exit code 1; once one was, it waits through outages. Where records do not go to the terminal, a line there
says how far it is and how fast; with --until end or -n also how long it will take.

With -g records count as done, and are committed, once the whole batch that they came in is written to standard output.
To stop after some say how many with -n, which is exact; a pipe that ends early (head) took batches or none, whatever was
looked at of them. --from is then for partitions that the group has no offset for. Partitions go to other members when
these come, and come back when they go; when they are given up, what was printed is committed first. Ctrl-C commits and
leaves the group.

JSON: topic, partition, offset, timestamp, timestamp_type (create or append), leader_epoch, key, value and
headers (an array of [name, value]). Null is null; bytes that are not UTF-8 become {\"base64\": \"...\"}. With --key-as
and --value-as int, long and json they become what they are, with hex and base64 a string of that.

--value-as json prints JSON over several lines and in colours on a terminal (without colours if NO_COLOR is set or TERM is
dumb), else on one line. int has 4 bytes and long 8, the highest first, as Java writes them.

--raw prints for each record the length of the key (4 bytes, the highest first, -1 for null), the key, the length of the
value and the value. In Python, with import struct, sys, they are read back by
  def field():
      length, = struct.unpack('>i', sys.stdin.buffer.read(4))
      return None if length < 0 else sys.stdin.buffer.read(length)
  while sys.stdin.buffer.peek(1):
      key, value = field(), field()

--stats=json prints an object: n and bytes (of keys and values) that were read, secs, first (seconds to the first record),
printed, partitions, waited_for_brokers and waited_for_output (seconds), connections, lost, refused, leaders_moved and
offsets_moved.

Examples:
  ottla read orders                                  all there is, then follow
  ottla read orders --until end > orders.txt         all there is, then stop
  ottla read orders --tail 10                        the last ten records
  ottla read orders --key '/^4711$/' --tail 1        the last one for the key 4711
  ottla read orders --value '/\"total\":[0-9]{4}/' --until end
  ottla read orders --from -10 --until end           the last ten offsets of each partition
  ottla read orders --from @-15m                     what came in the last quarter of an hour, then follow
  ottla read orders --key '/^4711$/' --from '@yesterday 12:00' --until '@yesterday 18:00' --json
  ottla read orders --from @2026-11-29T12:00 --until @2026-11-29T18:00
  ottla read orders -p 3 --from 1000 --until 2000    offsets 1000 to 1999 of partition 3
  ottla read orders -n 5 -f '%p %o %k %s\\n'          five records, with their places and keys
  ottla read orders --json | jq .value
  ottla read orders --value-as json --tail 1
  ottla read orders --json --value-as json --until end -o orders.json --rotate 100M
  ottla read orders --value refund --until end -o /dev/null --stats     how fast that is
  ottla read -g billing orders refunds               as a member of a group
  ottla read -g audit '/orders-.*/' --from latest";

pub(crate) const TOPICS: &str = "\
BEGIN is the first offset that a partition still has, END the next one to be written; RECORDS is what lies between them,
of which compaction and transactions may have taken some. In the list, REPLICAS is how many replicas a partition has,
IN-SYNC how many of them the partition has that has fewest. The exit code is 1 if something could not be found out.

Examples:
  ottla topics                      all of them
  ottla topics orders               its partitions
  ottla topics '/orders-.*/'
  ottla topics --json | jq -r 'select(.partitions | any(.leader == null)).topic'";

pub(crate) const OFFSETS: &str = "\
BEGIN is the first offset that a partition still has, END the next one to be written; RECORDS is what lies between them,
of which compaction and transactions may have taken some. TIME is as in ottla read: 2026-11-30T08:00:00Z, 2026-11-30T08:00
or 2026-11-30 (local time), 08:00 (of today), today, yesterday, 'yesterday 08:00', now, -90s, -15m, -2h, -1d (before now),
or 1796025600000 (ms since 1970). Where no record is that late, OFFSET is the end.

Examples:
  ottla offsets orders
  ottla offsets orders:3 refunds
  ottla offsets orders --at -1h                       what was written in the last hour
  ottla offsets orders --json | jq -s 'map(.records) | add'";

pub(crate) const PRODUCE: &str = "\
A record counts as written when all in-sync replicas have it. Without -p a key goes to the partition where Java's
producer would put it (murmur2); records without a key go round-robin, a batch at a time, also as in Java. A batch
holds up to 64 KB and is sent no later than when standard input pauses. A line may have 64 MiB; brokers take 1 MiB
unless told otherwise (message.max.bytes). The first failure ends the command; how many records were written before is
told on standard error.

Examples:
  echo hello | ottla produce greetings
  ottla produce orders -K : -z zstd < orders.txt       lines like 4711:two chairs
  printf '4711:' | ottla produce orders -K : -Z        a tombstone for the key 4711
  ottla produce orders -p 3 -H source=shell -H shift=2";

pub(crate) const GROUPS: &str = "\
All brokers are asked, each for the groups that it coordinates. KIND: classic, consumer (KIP-848), or another one as
the broker names it; TYPE: what the members do, \"consumer\" for consumers; STATE: Stable, Empty (it only holds offsets),
or what else the broker says.

Examples:
  ottla groups
  ottla groups --json | jq -r 'select(.state == \"Empty\").group'";

pub(crate) const GROUP: &str = "\
Examples:
  ottla group show billing
  ottla group seek billing orders --to @-1h
  ottla group delete billing --yes";

pub(crate) const GROUP_SHOW: &str = "\
COMMITTED is the next offset that the group reads, END the end of the log, LAG how many offsets lie between them and
are still in the log. BEHIND is how old the next unread record is, by its timestamp. OWNER is the member that has the
partition: its instance id, else its client id, with a number where several have the same.

Examples:
  ottla group show billing
  ottla group show billing --watch
  ottla group show billing --json | jq '[.partitions[].lag] | add'";

pub(crate) const GROUP_SEEK: &str = "\
Nothing is changed while the group has members: they would not notice, and commit over it. An offset that is not in the
log becomes the nearest one that is. TIME is as in ottla read: 2026-11-30T08:00:00Z, 2026-11-30T08:00 or 2026-11-30
(local time), 08:00 (of today), today, yesterday, 'yesterday 08:00', now, -90s, -15m, -2h, -1d (before now), or
1796025600000 (ms since 1970); it means the first record that is not older.

Examples:
  ottla group seek billing orders --to earliest           what it would do
  ottla group seek billing orders --to earliest --yes     read everything again
  ottla group seek billing orders refunds --to @-1h --yes
  ottla group seek billing orders:3 --to 4711 --yes       one partition
  ottla group seek billing orders --to latest --yes       skip what is there";

pub(crate) const GROUP_DELETE: &str = "\
Nothing is deleted while the group has members.

Examples:
  ottla group delete billing         what it would do
  ottla group delete billing --yes";

pub(crate) const BENCH: &str = "\
The line holds: client, n (records), bytes (keys and values), secs (from the start of connecting to the last record)
and first (seconds to the first record).

Examples:
  ottla bench orders --count 1000000
  ottla bench orders -p 0 --count 1000000 --api message
  ottla bench orders -g bench-$RANDOM --count 1000000 --api message";

pub(crate) const DEMO: &str = "\
The topic is called letters and has six partitions; its records are compressed with lz4 and travel over TCP, on a
free port of this machine. They are read back by a group of two members, of which the second joins half-way. Every
record is checked when it comes back, and so are the offsets that the group commits.

Examples:
  ottla demo
  ottla demo --records 5000000";

pub(crate) const BROKER: &str = "\
For trying things out and for tests: no replication, no authentication, and nothing outlives the process. Kafka's
own tools can create further topics in it.

Examples:
  ottla broker --topic orders:6 --topic refunds:1
  ottla broker --nodes 3 --topic orders:6                 on the ports 9092 to 9094
  ottla broker --like 2.8 --topic orders:6                to see how a client gets along with an old one
  ottla broker --listen 127.0.0.1:0 --topic orders:6";

pub(crate) const DOCTOR: &str = "\
Visits every address of -b, and every broker where the cluster says that it is: all addresses that the name has, how long
an answer takes (the middle one of five), and which Kafka it seems to be, by the features and the newest versions of the
APIs that it speaks. What cannot be reached is told with its reason, in the words that reading would use; so are topics
that cannot be described, partitions without a leader, and those with too few replicas in sync. The exit code is 0 if
nothing is wrong, else 1.

JSON: cluster, controller, topics and partitions (how many), problems (sentences) and visits, each with broker (null for an
address of -b), rack, address, advertised_to (who said it), found (ip and, if it was tried by itself, fault),
round_trip_ms, kafka (name and apis) and fault.

Examples:
  ottla doctor
  ottla -b kafka-1:9092,kafka-2:9092 doctor
  ottla doctor --json | jq -r '.problems[]'
  ottla doctor --json | jq -r '.visits[] | select(.fault == null) | [.address, .kafka.name, .round_trip_ms] | @tsv'";

pub(crate) const COMPLETIONS: &str = "\
Examples:
  ottla completions bash > ~/.local/share/bash-completion/completions/ottla
  ottla completions zsh > ~/.zfunc/_ottla             with ~/.zfunc in fpath
  ottla completions fish > ~/.config/fish/completions/ottla.fish";

pub(crate) const MAN: &str = "\
Examples:
  ottla man | man -l -
  ottla man read > ~/.local/share/man/man1/ottla-read.1
  ottla man group seek > ~/.local/share/man/man1/ottla-group-seek.1";
