package simpson

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"roam/lab/exp"
	"roam/lab/stats"
	"roam/lab/topo"
	"roam/lab/workload"
	"roam/lab/workload/udpflow"
)

// frameSizes are those of table 3.2, but that a session's MTU leaves 8 bytes less of the longer one.
var frameSizes = [2]int{128, 1506}

// frameHead are the bytes of Ethernet, IPv6, and UDP or ICMPv6 in front of the data.
const frameHead = 14 + 40 + 8

// tableRates are the rates of table 3.2 by frame size: 1, 10, 20, 50 and 100 Mb/s, and ten times as much.
var tableRates = [2][]int{{977, 9766, 19531, 48828, 97656}, {826, 8256, 16513, 41281, 82563}}

// ends are two hosts between which packets pass, and what counts these. The first one sends echoes.
type ends struct {
	hosts   [2]*topo.Host
	target  netip.Addr
	counted func(context.Context) (tally, error)
}

// longest is the greatest displacement of the histogram.
const longest = 30

// passage is what a policy has shown with frames of one size at one rate.
type passage struct {
	policy
	Frame, Rate int
	Queued      bool // by links of a rate that bursts exceed
	counts
	passed        tally
	sentPct       float64 // of the datagrams that were due
	goodput       float64 // Mb/s of data from the first host that arrived
	jitter        float64 // of arrivals from the first host: RFC 3550 section 6.4.1, mean, in ms
	misorderedPct float64 // of those: that came after one with a higher number
	displaced     []float64
}

// ratesOf reads rates by frame size: a list of numbers for both, "table" for those of table 3.2, or none.
func ratesOf(text string) (rates [2][]int, err error) {
	switch text {
	case "":
		return rates, nil
	case "table":
		return tableRates, nil
	}
	list, err := numbers(text)
	return [2][]int{list, list}, err
}

// numbers reads a list of numbers.
func numbers(text string) (list []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("read rates: %q is no number of datagrams a second", part)
		}
		list = append(list, n)
	}
	return list, nil
}

// exchangeAll has packets of both sizes pass at all rates, one after the other.
func exchangeAll(
	ctx context.Context, env *exp.Env, n ends, p policy, title string, rates [2][]int,
) (list []*passage, err error) {
	for i, frame := range frameSizes {
		for _, rate := range rates[i] {
			v := &passage{policy: p, Frame: frame, Rate: rate}
			env.View.Phase("%s, frames of %d bytes, %d a second", title, frame, rate)
			if err := v.exchange(ctx, env, n); err != nil {
				return nil, err
			}
			list = append(list, v)
		}
	}
	return list, nil
}

// exchange has ping and datagrams pass. Where queues matter only datagrams one way do.
func (v *passage) exchange(ctx context.Context, env *exp.Env, n ends) error {
	before, err := n.counted(ctx)
	if err != nil {
		return err
	}
	down, data := v.Rate, v.Frame-frameHead
	if v.Queued {
		down, data = 0, 0
	}
	length := time.Duration(env.Params.Float("packets") / float64(v.Rate) * float64(time.Second))
	c, err := cross(ctx, env, n.hosts, data, max(length, time.Second), workload.UDPOptions{
		Name: fmt.Sprintf("udp-%s-%d-%d-%v", v.name, v.Frame, v.Rate, v.Queued), Target: n.target.String(), Port: port,
		Up: v.Rate, Down: down, Size: v.Frame - frameHead,
	})
	if err != nil {
		return err
	}
	after, err := n.counted(ctx)
	if err != nil {
		return err
	}
	return v.read(c, before, after)
}

// read takes the figures from the records of what crossed and from the counters around it.
func (v *passage) read(c crossing, before, after tally) (err error) {
	var u udpflow.Count
	if v.counts, u, err = c.read(); err != nil {
		return err
	}
	v.passed = after.since(before)
	v.sentPct = 100 * float64(u.Written) / (float64(v.Rate) * c.length.Seconds())
	arrived := u.Written - u.Lost
	v.goodput = float64(arrived*(v.Frame-frameHead)) * 8e-6 / c.length.Seconds()
	v.misorderedPct = 100 * float64(u.Misorders) / max(1, float64(arrived))
	v.jitter = jitter(c.there.Got)
	v.displaced = displacements(c.there.Got)
	return nil
}

// jitter is the mean of the interarrival jitter of RFC 3550 section 6.4.1, in ms.
func jitter(got []udpflow.Got) float64 {
	var all []float64
	j := 0.0
	for i := 1; i < len(got); i++ {
		d := float64((got[i].At - got[i-1].At) - (got[i].Sent - got[i-1].Sent))
		j += (max(d, -d) - j) / 16
		all = append(all, j/1e6)
	}
	if len(all) == 0 {
		return 0
	}
	return stats.Mean(all)
}

// displacements is the part, in per cent, of the datagrams that arrived after so many with a higher
// number: element 0 is after one, the last one after longest or more.
func displacements(got []udpflow.Got) []float64 {
	list := make([]float64, longest)
	for i, g := range got {
		behind := 0
		for k := i - 1; k >= 0 && k >= i-8*longest && behind < longest; k-- {
			if got[k].Seq > g.Seq {
				behind++
			}
		}
		if behind > 0 {
			list[behind-1] += 100 / float64(len(got))
		}
	}
	return list
}
