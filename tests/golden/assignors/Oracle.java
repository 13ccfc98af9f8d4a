import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.internals.*;
import org.apache.kafka.common.*;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor; import org.apache.kafka.coordinator.group.modern.*;
import org.apache.rocketmq.client.consumer.rebalance.*;
import org.apache.rocketmq.common.message.MessageQueue;

public class Oracle {
  static String q(String s) { return "\"" + s + "\""; }
  static String tps(Collection<TopicPartition> l) { StringJoiner j = new StringJoiner(",", "[", "]"); for (TopicPartition t : l) j.add("[" + q(t.topic()) + "," + t.partition() + "]"); return j.toString(); }
  static String out(Map<String, List<TopicPartition>> m) { StringJoiner j = new StringJoiner(",", "{", "}"); for (String k : new TreeSet<>(m.keySet())) j.add(q(k) + ":" + tps(m.get(k))); return j.toString(); }
  record M(String id, String instance, List<String> topics, List<TopicPartition> owned, int generation) {}
  public static void main(String[] a) throws Exception {
    int n = Integer.parseInt(a[0]); long seed = Long.parseLong(a[1]);
    Random r = new Random(seed);
    for (int c = 0; c < n; c++) {
      int nt = 1 + r.nextInt(5), nm = 1 + r.nextInt(c % 10 == 0 ? 30 : 8);
      Map<String,Integer> counts = new HashMap<>();
      List<String> topics = new ArrayList<>();
      for (int i = 0; i < nt; i++) { String t = "topic" + (char)('a' + i); topics.add(t); if (r.nextInt(12) > 0) counts.put(t, 1 + r.nextInt(c % 10 == 0 ? 20 : 9)); }
      boolean same = r.nextInt(2) == 0;
      List<String> common = new ArrayList<>(); for (String t : topics) if (r.nextInt(4) > 0) common.add(t); if (common.isEmpty()) common.add(topics.get(0));
      List<M> ms = new ArrayList<>();
      int mode = r.nextInt(4); // 0 none owned, 1 each partition one owner same generation, 2 random claims, 3 a prior sticky assignment with someone gone
      Map<TopicPartition,String> owner = new HashMap<>();
      List<TopicPartition> all = new ArrayList<>(); for (String t : topics) for (int p = 0; p < counts.getOrDefault(t, 0); p++) all.add(new TopicPartition(t, p));
      for (int i = 0; i < nm; i++) {
        String id = "consumer-" + r.nextInt(90000) + "-" + i;
        List<String> sub = new ArrayList<>(); if (same) sub.addAll(common); else for (String t : topics) if (r.nextInt(3) > 0) sub.add(t);
        if (sub.isEmpty()) sub.add(topics.get(r.nextInt(nt)));
        String inst = r.nextInt(5) == 0 ? "inst-" + i + r.nextInt(10) : null;
        ms.add(new M(id, inst, sub, new ArrayList<>(), mode == 0 ? -1 : mode == 2 ? 3 + r.nextInt(3) : 5));
      }
      if (mode == 1) for (TopicPartition tp : all) { M m = ms.get(r.nextInt(nm)); if (m.topics.contains(tp.topic()) && r.nextInt(5) > 0) m.owned.add(tp); }
      if (mode == 2) for (TopicPartition tp : all) for (M m : ms) if (m.topics.contains(tp.topic()) && r.nextInt(3) == 0) m.owned.add(tp);
      if (mode == 3) { int skip = r.nextInt(nm); Map<String,Subscription> s0 = new HashMap<>(); for (int i = 0; i < nm; i++) if (i != skip) s0.put(ms.get(i).id, sub(ms.get(i), true)); 
        if (!s0.isEmpty()) { Map<String,List<TopicPartition>> r0 = new CooperativeStickyAssignor().assign(new HashMap<>(sc(counts, s0)), s0); for (M m : ms) if (r0.containsKey(m.id)) m.owned.addAll(r0.get(m.id)); } 
        if (nm > 2 && r.nextBoolean()) ms.remove(r.nextInt(nm)); }
      StringJoiner j = new StringJoiner(",", "{", "}");
      StringJoiner cj = new StringJoiner(",", "{", "}"); for (String t : new TreeSet<>(counts.keySet())) cj.add(q(t) + ":" + counts.get(t)); j.add("\"counts\":" + cj);
      StringJoiner mj = new StringJoiner(",", "[", "]"); for (M m : ms) { StringJoiner tj = new StringJoiner(",", "[", "]"); for (String t : m.topics) tj.add(q(t)); mj.add("[" + q(m.id) + "," + (m.instance == null ? "null" : q(m.instance)) + "," + tj + "," + tps(m.owned) + "," + m.generation + "]"); } j.add("\"members\":" + mj);
      for (String name : List.of("range", "roundrobin", "sticky", "cooperative-sticky")) {
        Map<String,Subscription> s = new HashMap<>(); for (M m : ms) s.put(m.id, sub(m, name.startsWith("coop")));
        AbstractPartitionAssignor as = name.equals("range") ? new org.apache.kafka.clients.consumer.RangeAssignor() : name.equals("roundrobin") ? new RoundRobinAssignor() : name.equals("sticky") ? new StickyAssignor() { protected MemberData memberData(Subscription x) { return new MemberData(x.ownedPartitions(), x.generationId()); } } : new CooperativeStickyAssignor();
        // the public path: only subscribed topics with partitions, in a HashMap filled from a HashSet
        String res; try { res = out(as.assign(sc(counts, s), s)); } catch (RuntimeException e) { res = q("error " + e); }
        j.add(q(name) + ":" + res);
      }
      // uniform: topics as Uuid(0,i) so that their order is that of names; only existing ones
      Map<String,MemberSubscriptionAndAssignmentImpl> spec = new HashMap<>(); Map<Uuid,String> names = new HashMap<>(); Map<String,Uuid> ids = new HashMap<>();
      for (int i = 0; i < nt; i++) { Uuid u = new Uuid(0, i + 1); names.put(u, topics.get(i)); ids.put(topics.get(i), u); }
      Set<Set<String>> kinds = new HashSet<>();
      Set<TopicPartition> taken = new HashSet<>();
      for (M m : ms) { Set<Uuid> t = new HashSet<>(); Set<String> ks = new HashSet<>(); for (String x : m.topics) if (counts.containsKey(x)) { t.add(ids.get(x)); } kinds.add(new HashSet<>(m.topics));
        Map<Uuid,Set<Integer>> own = new TreeMap<>(); for (TopicPartition tp : m.owned) if (taken.add(tp)) own.computeIfAbsent(ids.get(tp.topic()), k -> new TreeSet<>()).add(tp.partition());
        spec.put(m.id, new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.ofNullable(m.instance), t, new org.apache.kafka.coordinator.group.modern.Assignment(Collections.unmodifiableMap(own)))); }
      Map<Uuid,Map<Integer,String>> inv = new HashMap<>(); for (var e : spec.entrySet()) for (var x : e.getValue().partitions().entrySet()) for (int p : x.getValue()) inv.computeIfAbsent(x.getKey(), k -> new HashMap<>()).put(p, e.getKey());
      SubscribedTopicDescriber d = new SubscribedTopicDescriber() { public int numPartitions(Uuid u) { return counts.getOrDefault(names.get(u), -1); } public Set<String> racksForPartition(Uuid u, int p) { return Set.of(); } };
      String ures; try { org.apache.kafka.coordinator.group.api.assignor.GroupAssignment g = new UniformAssignor().assign(new GroupSpecImpl(spec, kinds.size() <= 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, inv), d);
        Map<String,List<TopicPartition>> o = new HashMap<>(); for (M m : ms) o.put(m.id, new ArrayList<>()); for (var e : g.members().entrySet()) for (var x : e.getValue().partitions().entrySet()) for (int p : x.getValue()) o.get(e.getKey()).add(new TopicPartition(names.get(x.getKey()), p)); for (var l : o.values()) l.sort(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition)); ures = out(o); } catch (RuntimeException e) { ures = q("error " + e); }
      j.add("\"uniform\":" + ures);
      Map<String,AbstractAllocateMessageQueueStrategy> mq = new LinkedHashMap<>(); mq.put("allocate-averagely", new AllocateMessageQueueAveragely()); mq.put("averagely-by-circle", new AllocateMessageQueueAveragelyByCircle()); mq.put("consistent-hash", new AllocateMessageQueueConsistentHash());
      Map<String,String> roomOf = new HashMap<>(); for (M m : ms) roomOf.put(m.id, "room" + (Math.abs(m.id.hashCode()) % 3));
      mq.put("nearby", new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), new AllocateMachineRoomNearby.MachineRoomResolver() { public String brokerDeployIn(MessageQueue x) { return "room" + (x.getQueueId() % 4); } public String consumerDeployIn(String x) { return roomOf.get(x); } }));
      AllocateMessageQueueByMachineRoom bm = new AllocateMessageQueueByMachineRoom(); bm.setConsumeridcs(Set.of("room1", "room2")); mq.put("by-machine-room", bm);
      for (var e : mq.entrySet()) { Map<String,List<TopicPartition>> o = new HashMap<>(); for (M m : ms) o.put(m.id, new ArrayList<>());
        for (String t : new TreeSet<>(counts.keySet())) { List<String> cids = new ArrayList<>(); for (M m : ms) if (m.topics.contains(t)) cids.add(m.id); if (cids.isEmpty()) continue; Collections.sort(cids);
          List<MessageQueue> qs = new ArrayList<>(); for (int p = 0; p < counts.get(t); p++) qs.add(new MessageQueue(t, e.getKey().equals("by-machine-room") ? "room" + (p % 4) + "@b" : "kafka", p)); if (!e.getKey().equals("by-machine-room")) Collections.sort(qs);
          for (String cid : cids) for (MessageQueue x : e.getValue().allocate("g", cid, qs, cids)) o.get(cid).add(new TopicPartition(t, x.getQueueId())); }
        j.add(q(e.getKey()) + ":" + out(o)); }
      System.out.println(j);
    }
  }
  static Map<String,Integer> sc(Map<String,Integer> counts, Map<String,Subscription> s) { Set<String> all = new HashSet<>(); for (Subscription x : s.values()) all.addAll(x.topics()); Map<String,Integer> m = new HashMap<>(); for (String t : all) if (counts.containsKey(t)) m.put(t, counts.get(t)); return m; }
  static Subscription sub(M m, boolean coop) { Subscription s = new Subscription(m.topics, null, m.owned, m.generation, Optional.empty()); if (m.instance != null) s.setGroupInstanceId(Optional.of(m.instance)); return s; }
}
