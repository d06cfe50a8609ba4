package ilnphost

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"roam/flowrule"
	"roam/ilnp"
)

// maxRules is how many rules a set may have. The map has room for two sets: one is written
// while sessions use the other.
const maxRules = flowrule.Max

// FlowRules is what the programs are to know of the user's rules.
type FlowRules struct {
	Set     flowrule.Set
	Cgroups []uint64 // of each rule, 0 where it names none, or none that is there
}

// ruleTable is what was written of rules.
type ruleTable struct {
	number  uint32 // of the newest set; its lowest bit says where it is. 0: none was written
	rows    [2 * maxRules]bpfFlowRule
	written [2]bool // of each half: before that it has the rows of a predecessor
	cgroups map[bpfCgroupKey]uint64
	named   [2]uint64 // of each half, the rules that name a cgroup
}

// next returns the number under which the next set of rules is to be written: its half of the
// map is one that none of these sessions uses.
func (t *ruleTable) next(known map[ilnp.SessionKey]bpfSessionEntry) uint32 {
	if t.number != 0 {
		return t.number + 1
	}
	for _, row := range known {
		if row.Flags&bpfEntryFlagsENTRY_RULED != 0 && row.RulesAt&maxRules != 0 {
			return 2
		}
	}
	return 1
}

// WriteRules writes a set of rules, and returns its number; or, given that, the same set again,
// where cgroups have changed.
func (p *Plane) WriteRules(number uint32, r FlowRules) (uint32, error) {
	t := &p.rules
	if number == 0 {
		number = t.next(p.known)
	}
	half := number & 1
	named := uint64(0)
	wanted := make(map[bpfCgroupKey]uint64)
	for i := range maxRules {
		var row bpfFlowRule
		if i < len(r.Set) {
			row = ruleRow(r.Set[i])
			if r.Set[i].Cgroup != "" {
				named |= 1 << i
			}
		}
		if i < len(r.Cgroups) && r.Cgroups[i] != 0 {
			wanted[bpfCgroupKey{Id: r.Cgroups[i], Set: uint64(half * maxRules)}] |= 1 << i
		}
		at := half*maxRules + uint32(i)
		if row == t.rows[at] && t.written[half] {
			continue
		}
		if err := p.objs.FlowRules.Put(at, &row); err != nil {
			return 0, fmt.Errorf("write rule %d: %w", i+1, err)
		}
		t.rows[at] = row
	}
	t.written[half] = true
	if err := t.writeCgroups(p.objs.RuleCgroups, uint64(half*maxRules), wanted); err != nil {
		return 0, err
	}
	t.named[half], t.number = named, number
	return number, nil
}

// writeCgroups replaces the cgroups of one set.
func (t *ruleTable) writeCgroups(m *ebpf.Map, set uint64, wanted map[bpfCgroupKey]uint64) error {
	if err := t.readCgroups(m); err != nil {
		return err
	}
	for k := range t.cgroups {
		if _, keep := wanted[k]; keep || k.Set != set {
			continue
		}
		if err := m.Delete(&k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("forget cgroup of a rule: %w", err)
		}
		delete(t.cgroups, k)
	}
	for k, rules := range wanted {
		if t.cgroups[k] == rules {
			continue
		}
		if err := m.Put(&k, rules); err != nil {
			return fmt.Errorf("note cgroup of a rule: %w", err)
		}
		t.cgroups[k] = rules
	}
	return nil
}

// readCgroups takes over what an earlier process wrote.
func (t *ruleTable) readCgroups(m *ebpf.Map) error {
	if t.cgroups != nil {
		return nil
	}
	found := make(map[bpfCgroupKey]uint64)
	var k bpfCgroupKey
	var rules uint64
	each := m.Iterate()
	for each.Next(&k, &rules) {
		found[k] = rules
	}
	if err := each.Err(); err != nil {
		return fmt.Errorf("read cgroups of rules: %w", err)
	}
	t.cgroups = found
	return nil
}

// ruleRow returns a rule as the programs read it.
func ruleRow(rule flowrule.Rule) bpfFlowRule {
	row := bpfFlowRule{Dscp: rule.DSCP, Proto: rule.Protocol}
	if rule.Policy.OnePath() {
		row.Flags |= bpfFlowRuleFlagsFLOW_RULE_ONE_PATH
	}
	for i, ports := range rule.Ports {
		row.Ports[i].First, row.Ports[i].Last = ports.First, ports.Last
		row.Flags |= bpfFlowRuleFlagsFLOW_RULE_PORTS
	}
	for i, ports := range rule.OwnPorts {
		row.OwnPorts[i].First, row.OwnPorts[i].Last = ports.First, ports.Last
		row.Flags |= bpfFlowRuleFlagsFLOW_RULE_OWN_PORTS
	}
	if rule.Cgroup != "" {
		row.Flags |= bpfFlowRuleFlagsFLOW_RULE_CGROUP
	}
	return row
}

// fields writes into the entry of a session what its rules need, and those of its peer.
func (t *ruleTable) fields(p *Plane, r *bpfSessionEntry, entry ilnp.Entry) {
	if entry.Rules.Mask != 0 {
		t.ownFields(p, r, entry)
	}
	if !entry.Answers {
		return
	}
	r.Flags |= bpfEntryFlagsENTRY_RULED | bpfEntryFlagsENTRY_ANSWERS // one bit to test on the way out
	for _, path := range entry.Back {
		r.N_answers += p.uplinks.addPath(r, path)
	}
}

func (t *ruleTable) ownFields(p *Plane, r *bpfSessionEntry, entry ilnp.Entry) {
	r.Flags |= bpfEntryFlagsENTRY_RULED
	r.Rules, r.RulesAt = uint32(entry.Rules.Mask), uint8(entry.Rules.Set&1)*maxRules
	if entry.Rules.Mask&t.named[entry.Rules.Set&1] != 0 {
		r.RulesAt |= rulesByCgroup
		r.Flags &^= bpfEntryFlagsENTRY_CUT // segments have no cgroup: another rule might match them
	}
	for _, path := range entry.Ruled {
		r.N_ruled += p.uplinks.addPath(r, path)
	}
}

// isPath reports whether a path of an entry is that one of the core.
func (t *uplinkTable) isPath(r *bpfSessionEntry, at uint8, path ilnp.Path) bool {
	return t.owner[at>>4] == path.Local && r.Remote[at&15] == half(uint64(path.Remote))
}

// rulesByCgroup is RULES_BY_CGROUP of bpf/ilnp/flowruletypes.h.
const rulesByCgroup = 128

// CgroupID returns the number by which programs know the cgroup2 of a directory; 0: there is
// none.
func CgroupID(dir string) uint64 {
	var fs unix.Statfs_t
	var at unix.Stat_t
	if unix.Statfs(dir, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC || unix.Stat(dir, &at) != nil {
		return 0
	}
	return at.Ino
}
