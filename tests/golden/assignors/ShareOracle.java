import java.util.*;
import org.apache.kafka.common.*;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor; import org.apache.kafka.coordinator.group.modern.*;

/** Random share groups through several targets, and what Kafka's SimpleAssignor answers. */
public class ShareOracle {
  static String hex(Uuid u) { return String.format("%016x%016x", u.getMostSignificantBits(), u.getLeastSignificantBits()); }
  static String parts(Map<Uuid, Set<Integer>> m) {
    StringJoiner j = new StringJoiner(",", "{", "}");
    for (Uuid u : new TreeSet<>(m.keySet())) if (!m.get(u).isEmpty()) j.add("\"" + hex(u) + "\":" + new TreeSet<>(m.get(u)));
    return j.toString();
  }
  public static void main(String[] a) throws Exception {
    int n = Integer.parseInt(a[0]); Random r = new Random(Long.parseLong(a[1]));
    for (int c = 0; c < n; c++) {
      int nt = 1 + r.nextInt(4), big = c % 10 == 0 ? 30 : 7;
      List<Uuid> ids = new ArrayList<>(); Map<Uuid, Integer> counts = new HashMap<>();
      for (int i = 0; i < nt; i++) { Uuid u = new Uuid(r.nextLong(), r.nextLong()); ids.add(u); counts.put(u, 1 + r.nextInt(big)); }
      Map<Uuid, Set<Integer>> assignable = new HashMap<>();
      for (Uuid u : ids) { Set<Integer> s = new HashSet<>(); for (int p = 0; p < counts.get(u); p++) if (r.nextInt(6) > 0) s.add(p); if (r.nextInt(8) > 0) assignable.put(u, s); }
      boolean same = r.nextInt(2) == 0;
      Map<String, Map<Uuid, Set<Integer>>> targets = new LinkedHashMap<>();
      for (int round = 0; round < 3; round++) {
        if (round > 0 && !targets.isEmpty() && r.nextBoolean()) targets.remove(new ArrayList<>(targets.keySet()).get(r.nextInt(targets.size())));
        int more = r.nextInt(big); for (int i = 0; i < more || targets.isEmpty(); i++) targets.put(Uuid.randomUuid().toString().substring(0, 8) + r.nextInt(1000), new HashMap<>());
        List<Uuid> common = new ArrayList<>(); for (Uuid u : ids) if (r.nextInt(4) > 0) common.add(u);
        Map<String, MemberSubscriptionAndAssignmentImpl> spec = new HashMap<>();
        StringJoiner mj = new StringJoiner(",", "[", "]");
        for (var e : targets.entrySet()) {
          List<Uuid> subs = new ArrayList<>(common);
          if (!same) { subs.clear(); for (Uuid u : ids) if (r.nextInt(3) > 0) subs.add(u); }
          StringJoiner tj = new StringJoiner(",", "[", "]"); for (Uuid u : subs) tj.add("\"" + hex(u) + "\"");
          mj.add("[\"" + e.getKey() + "\"," + tj + "," + parts(e.getValue()) + "]");
          spec.put(e.getKey(), new MemberSubscriptionAndAssignmentImpl(Optional.empty(), Optional.empty(), new LinkedHashSet<>(subs), new Assignment(e.getValue())));
        }
        SubscribedTopicDescriber d = new SubscribedTopicDescriber() {
          public int numPartitions(Uuid u) { return counts.get(u); }
          public Set<String> racksForPartition(Uuid u, int p) { return Set.of(); }
        };
        GroupSpec g = new GroupSpecImpl(spec, same ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS, Map.of(), Optional.of(assignable));
        GroupAssignment out = new SimpleAssignor().assign(g, d);
        StringJoiner oj = new StringJoiner(",", "{", "}");
        for (String id : targets.keySet()) {
          MemberAssignment m = out.members().get(id);
          Map<Uuid, Set<Integer>> now = new HashMap<>();
          if (m != null) for (var e : m.partitions().entrySet()) if (!e.getValue().isEmpty()) now.put(e.getKey(), new HashSet<>(e.getValue()));
          oj.add("\"" + id + "\":" + parts(now)); targets.put(id, now);
        }
        System.out.println("{\"same\":" + same + ",\"assignable\":" + parts(assignable) + ",\"members\":" + mj + ",\"simple\":" + oj + "}");
      }
    }
  }
}
