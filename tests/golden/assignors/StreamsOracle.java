import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.common.Uuid; import org.apache.kafka.common.errors.StreamsInvalidTopologyException;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopic;
import org.apache.kafka.common.protocol.MessageUtil; import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.*;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue.*;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.assignor.*;
import org.apache.kafka.coordinator.group.streams.topics.*;

/** Random streams groups: what Kafka's InternalTopicManager makes of topologies, and its StickyTaskAssignor of groups. */
public class StreamsOracle {
  static Random r;
  static String q(String s) { return "\"" + s + "\""; }
  static String strings(Collection<String> c) { StringJoiner j = new StringJoiner(",", "[", "]"); for (String s : c) j.add(q(s)); return j.toString(); }

  // Topologies.
  static CoordinatorMetadataImage image(Map<String, Integer> counts) {
    return new CoordinatorMetadataImage() {
      public Set<Uuid> topicIds() { return Set.of(); }
      public Set<String> topicNames() { return counts.keySet(); }
      public Optional<TopicMetadata> topicMetadata(String name) {
        if (!counts.containsKey(name)) return Optional.empty();
        return Optional.of(new TopicMetadata() {
          public String name() { return name; } public Uuid id() { return Uuid.ZERO_UUID; }
          public int partitionCount() { return counts.get(name); } public List<String> partitionRacks(int p) { return List.of(); }
        });
      }
      public Optional<TopicMetadata> topicMetadata(Uuid id) { return Optional.empty(); }
      public CoordinatorMetadataDelta emptyDelta() { return null; }
      public long version() { return 0; } public boolean isEmpty() { return false; }
    };
  }
  static TopicInfo topic(String name, int partitions) {
    TopicInfo t = new TopicInfo().setName(name).setPartitions(partitions).setReplicationFactor((short) (r.nextInt(4) - 1));
    if (r.nextInt(3) == 0) t.setTopicConfigs(List.of(new TopicConfig().setKey("cleanup.policy").setValue("compact"), new TopicConfig().setKey("retention.ms").setValue("" + r.nextInt(99))));
    return t;
  }
  static StreamsGroupTopologyValue topology(Map<String, Integer> counts) {
    int n = 1 + r.nextInt(r.nextInt(5) == 0 ? 14 : 4); boolean tidy = r.nextInt(4) > 0; int equal = 1 + r.nextInt(5); boolean same = r.nextInt(3) > 0;
    List<Subtopology> subs = new ArrayList<>(); List<String> written = new ArrayList<>();
    String app = "app" + r.nextInt(1000) + "-";
    for (int i = 0; i < n; i++) {
      String id = r.nextInt(6) == 0 ? Long.toString(r.nextLong() >>> 40, 36) + i : "" + i;
      List<String> sources = new ArrayList<>(); List<TopicInfo> reps = new ArrayList<>(), logs = new ArrayList<>(); List<String> sinks = new ArrayList<>();
      int ns = r.nextInt(4); if (tidy && written.isEmpty() && ns == 0) ns = 1;
      for (int k = 0; k < ns; k++) { String s = "in" + r.nextInt(9); if (!sources.contains(s)) sources.add(s);
        if (!counts.containsKey(s) && r.nextInt(tidy ? 60 : 8) > 0) counts.put(s, same ? equal : 1 + r.nextInt(6)); }
      Set<String> read = new LinkedHashSet<>();
      for (int k = r.nextInt(3); k > 0; k--) read.add(!tidy ? app + "rep" + r.nextInt(6) : written.isEmpty() ? null : written.get(r.nextInt(written.size())));
      read.remove(null); if (tidy && sources.isEmpty() && read.isEmpty()) read.add(written.get(0));
      for (String s : read) reps.add(topic(s, r.nextInt(4) == 0 ? (r.nextBoolean() ? equal : 1 + r.nextInt(6)) : 0));
      for (int k = r.nextInt(3); k > 0; k--) { String s = app + "rep" + (tidy && r.nextInt(5) > 0 ? 10 * i + k : r.nextInt(6)); sinks.add(s); written.add(s); }
      for (int k = r.nextInt(r.nextInt(6) == 0 ? 9 : 3); k > 0; k--) logs.add(topic(app + "store" + (r.nextInt(30) == 0 ? 0 : 10 * i + k) + "-changelog", 0));
      List<CopartitionGroup> groups = new ArrayList<>();
      if (r.nextInt(2) == 0) for (int g = 1 + r.nextInt(2); g > 0; g--) {
        CopartitionGroup group = new CopartitionGroup(); List<Short> a = new ArrayList<>(), b = new ArrayList<>();
        for (short k = 0; k < sources.size(); k++) if (r.nextInt(3) == 0) a.add(k);
        for (short k = 0; k < reps.size(); k++) if (r.nextInt(3) > 0) b.add(k);
        if (r.nextInt(80) == 0) b.add((short) 7);
        groups.add(group.setSourceTopics(a).setRepartitionSourceTopics(b));
      }
      subs.add(new Subtopology().setSubtopologyId(id).setSourceTopics(sources).setRepartitionSourceTopics(reps).setRepartitionSinkTopics(sinks).setStateChangelogTopics(logs).setCopartitionGroups(groups));
    }
    if (r.nextInt(50) == 0) subs.get(0).setSubtopologyId(subs.get(n - 1).subtopologyId());
    return new StreamsGroupTopologyValue().setEpoch(r.nextInt(3)).setSubtopologies(subs);
  }
  static String config(Map<String, String> m) { StringJoiner j = new StringJoiner(",", "{", "}"); for (String k : new TreeSet<>(m.keySet())) j.add(q(k) + ":" + q(m.get(k))); return j.toString(); }
  static String internal(Map<String, ConfiguredInternalTopic> m) {
    StringJoiner j = new StringJoiner(",", "{", "}");
    for (String k : new TreeSet<>(m.keySet())) { var t = m.get(k); j.add(q(k) + ":[" + t.numberOfPartitions() + "," + t.replicationFactor().orElse((short) 0) + "," + config(t.topicConfigs()) + "]"); }
    return j.toString();
  }
  static ConfiguredTopology run(StreamsGroupTopologyValue v, Map<String, Integer> counts) {
    return InternalTopicManager.configureTopics(org.slf4j.LoggerFactory.getLogger("x"), "g", "m", 0L, StreamsTopology.fromRecord(v), image(counts), Time.SYSTEM);
  }
  static String result(StreamsGroupTopologyValue v, Map<String, Integer> counts) {
    ConfiguredTopology t;
    try { t = run(v, counts); }
    catch (StreamsInvalidTopologyException e) { return "{\"invalid\":" + q(e.getMessage()) + "}"; }
    catch (RuntimeException e) { return "{\"broken\":" + q(e.getClass().getSimpleName()) + "}"; }
    StringJoiner subs = new StringJoiner(",", "{", "}"), create = new StringJoiner(",", "[", "]");
    if (t.subtopologies().isPresent()) for (var e : t.subtopologies().get().entrySet()) { var s = e.getValue();
      subs.add(q(e.getKey()) + ":[" + s.numberOfTasks() + "," + strings(new TreeSet<>(s.sourceTopics())) + "," + internal(s.repartitionSourceTopics()) + "," + internal(s.stateChangelogTopics()) + "]"); }
    for (CreatableTopic c : t.internalTopicsToBeCreated().values()) { Map<String, String> m = new HashMap<>(); c.configs().forEach(x -> m.put(x.name(), x.value()));
      create.add("[" + q(c.name()) + "," + c.numPartitions() + "," + c.replicationFactor() + "," + config(m) + "]"); }
    String status = t.topicConfigurationException().map(e -> "[" + e.status().code() + "," + q(e.getMessage()) + "]").orElse("null");
    return "{\"subtopologies\":" + subs + ",\"create\":" + create + ",\"status\":" + status + ",\"ready\":" + t.isReady() + "}";
  }
  static void topologies(int n) {
    for (int c = 0; c < n; c++) {
      Map<String, Integer> counts = new TreeMap<>(); StreamsGroupTopologyValue v = topology(counts);
      try { for (CreatableTopic t : run(v, counts).internalTopicsToBeCreated().values()) if (r.nextInt(2) == 0) counts.put(t.name(), r.nextInt(15) == 0 ? 1 + r.nextInt(6) : t.numPartitions()); } catch (RuntimeException e) { }
      if (r.nextInt(2) == 0) try { for (CreatableTopic t : run(v, counts).internalTopicsToBeCreated().values()) counts.put(t.name(), r.nextInt(30) == 0 ? 1 + r.nextInt(6) : t.numPartitions()); } catch (RuntimeException e) { }
      if (r.nextInt(20) == 0) for (int k = 0; k < 6; k++) if (r.nextBoolean()) counts.put(new ArrayList<>(StreamsTopology.fromRecord(new StreamsGroupTopologyValue().setEpoch(0).setSubtopologies(v.subtopologies().subList(0, 1))).requiredTopics()).stream().findAny().orElse("in0"), 1 + r.nextInt(6));
      ByteBuffer b = MessageUtil.toByteBufferAccessor(v, (short) 0).buffer(); byte[] bytes = new byte[b.remaining()]; b.get(bytes);
      StringJoiner j = new StringJoiner(",", "{", "}"); counts.forEach((k, x) -> j.add(q(k) + ":" + x));
      System.out.println("{\"topology\":" + q(HexFormat.of().formatHex(bytes)) + ",\"partitions\":" + j + ",\"result\":" + result(v, counts) + "}");
    }
  }

  // Groups.
  static String tasks(Map<String, Set<Integer>> m) {
    StringJoiner j = new StringJoiner(",", "{", "}");
    for (String k : new TreeSet<>(m.keySet())) if (!m.get(k).isEmpty()) j.add(q(k) + ":" + new TreeSet<>(m.get(k)));
    return j.toString().replace(" ", "");
  }
  static void groups(int n) throws Exception {
    for (int c = 0; c < n; c++) {
      int big = c % 8 == 0 ? 30 : 6; SortedMap<String, Integer> counts = new TreeMap<>(); Set<String> stateful = new HashSet<>();
      for (int i = 1 + r.nextInt(4); i > 0; i--) { String id = r.nextInt(5) == 0 ? "s" + r.nextInt(99) : "" + i; counts.put(id, 1 + r.nextInt(big)); if (r.nextInt(3) > 0) stateful.add(id); }
      int replicas = r.nextInt(3), processes = 1 + r.nextInt(big); List<String> ids = new ArrayList<>(); for (int i = 0; i < processes; i++) ids.add(new UUID(r.nextLong(), r.nextLong()).toString());
      Map<String, String> process = new LinkedHashMap<>(); Map<String, MemberAssignment> target = new HashMap<>();
      for (int round = 0; round < 4; round++) {
        if (round > 0) for (String m : new ArrayList<>(process.keySet())) if (r.nextInt(4) == 0 && process.size() > 1) { process.remove(m); target.remove(m); }
        for (int more = r.nextInt(big); more > 0 || process.isEmpty(); more--) process.put(Uuid.randomUuid().toString().substring(0, 11), ids.get(r.nextInt(ids.size())));
        if (r.nextInt(5) == 0) { replicas = r.nextInt(3); for (String s : counts.keySet()) if (r.nextInt(3) == 0) counts.put(s, counts.get(s) + r.nextInt(3)); }
        Map<String, AssignmentMemberSpec> spec = new HashMap<>(); StringJoiner mj = new StringJoiner(",", "[", "]");
        for (var e : process.entrySet()) {
          MemberAssignment before = target.getOrDefault(e.getKey(), MemberAssignment.empty());
          if (r.nextInt(25) == 0 && !target.isEmpty()) before = new ArrayList<>(target.values()).get(r.nextInt(target.size()));
          mj.add("[" + q(e.getKey()) + "," + q(e.getValue()) + "," + tasks(before.activeTasks()) + "," + tasks(before.standbyTasks()) + "]");
          spec.put(e.getKey(), new AssignmentMemberSpec(Optional.empty(), Optional.empty(), before.activeTasks(), before.standbyTasks(), Map.of(), e.getValue(), Map.of(), Map.of(), Map.of()));
        }
        TopologyDescriber d = new TopologyDescriber() {
          public List<String> subtopologies() { return new ArrayList<>(counts.keySet()); }
          public int maxNumInputPartitions(String s) { return counts.get(s); }
          public boolean isStateful(String s) { return stateful.contains(s); }
        };
        GroupAssignment out = new StickyTaskAssignor().assign(new GroupSpecImpl(spec, Map.of("num.standby.replicas", "" + replicas)), d);
        StringJoiner oj = new StringJoiner(",", "{", "}"), sj = new StringJoiner(",", "{", "}"); target.clear(); target.putAll(out.members());
        for (String m : new TreeSet<>(out.members().keySet())) { var a = out.members().get(m); oj.add(q(m) + ":[" + tasks(a.activeTasks()) + "," + tasks(a.standbyTasks()) + "]"); if (!a.warmupTasks().isEmpty()) throw new Exception(); }
        counts.forEach((k, x) -> sj.add(q(k) + ":[" + x + "," + stateful.contains(k) + "]"));
        System.out.println("{\"replicas\":" + replicas + ",\"subtopologies\":" + sj + ",\"members\":" + mj + ",\"sticky\":" + oj + "}");
      }
    }
  }
  public static void main(String[] a) throws Exception {
    r = new Random(Long.parseLong(a[2]));
    if (a[0].equals("topologies")) topologies(Integer.parseInt(a[1])); else groups(Integer.parseInt(a[1]));
  }
}
