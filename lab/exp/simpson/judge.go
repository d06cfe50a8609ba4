package simpson

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"roam/lab/result"
	"roam/lab/site"
	"roam/lab/stats"
)

// judge sets the metrics of the claims about Roam's borders.
func judge(r *result.Result, all []*seen) {
	var echoes, echoesLost, datagrams, datagramsLost, changed, internal, encapsulated int
	var strays uint64
	least := math.Inf(1)
	for _, v := range all {
		for _, sent := range v.sent {
			least = min(least, float64(sent.Link[0]+sent.Link[1]))
			strays += sent.Strays
		}
		r.Set("share_"+v.name+"_error_points", v.shareError())
		r.Set("daemon_share_"+v.name+"_error_points", max(off(v.daemon[0], v.share), off(v.daemon[1], v.share)))
		echoes, echoesLost = echoes+v.echoes, echoesLost+v.echoesLost
		datagrams, datagramsLost = datagrams+v.datagrams, datagramsLost+v.datagramsLost
		changed += difference(v.routes[0], v.routes[1])
		internal, encapsulated = internal+v.internal(), encapsulated+v.encapsulated
	}
	var delays, lost []float64
	for _, v := range all {
		delays, lost = append(delays, v.added...), append(lost, v.lost...)
	}
	r.Set("updates_passed", float64(len(delays)))
	r.Set("update_added_median_ms", stats.Median(delays))
	r.Set("update_added_p99_ms", stats.Quantile(delays, 0.99))
	r.Set("link_lost_to_update_ms", stats.Quantile(lost, 1))
	r.Set("link_lost_to_update_least_ms", stats.Quantile(lost, 0))
	r.Set("least_packets", least)
	r.Set("stray_packets", float64(strays))
	r.Set("echoes_lost_pct", percent(echoesLost, echoes))
	r.Set("datagrams_lost_pct", percent(datagramsLost, datagrams))
	r.Set("routes_changed", float64(changed))
	r.Set("internal_bytes", float64(internal))
	r.Set("encapsulated_packets", float64(encapsulated))
}

// judgeComparators sets the metrics of the comparators, and of Roam with one locator preferred
// alone, which is what they do.
func judgeComparators(r *result.Result, roam *seen, others []*seen) {
	r.Set("roam_rtt_median_ms", stats.Median(roam.rtts))
	for _, c := range site.Comparators {
		for _, m := range []string{"_echoes_lost_pct", "_datagrams_lost_pct", "_share_error_points", "_rtt_median_ms",
			"_internal_bytes", "_encapsulated_packets", "_routes_changed"} {
			r.Miss(c.Name+m, "not run")
		}
	}
	for _, v := range others {
		set := func(name string, value float64) {
			if v.missing != "" {
				r.Miss(v.name+name, v.missing)
				return
			}
			r.Set(v.name+name, value)
		}
		set("_echoes_lost_pct", percent(v.echoesLost, v.echoes))
		set("_datagrams_lost_pct", percent(v.datagramsLost, v.datagrams))
		if v.name != site.Forwarding.Name { // its packets have no source of a provider
			set("_share_error_points", v.shareError())
		}
		set("_rtt_median_ms", stats.Median(v.rtts))
		set("_internal_bytes", float64(v.internal()))
		set("_encapsulated_packets", float64(v.encapsulated))
		set("_routes_changed", float64(difference(v.routes[0], v.routes[1])))
	}
}

// shareError is how far the first link's part of what either border sent is off, in points.
func (v *seen) shareError() float64 {
	return max(off(v.sent[0].Link, v.share), off(v.sent[1].Link, v.share))
}

// off is how far the part of the first of two counts is off a share, in points.
func off(n [2]uint64, share float64) float64 {
	return 100 * math.Abs(float64(n[0])/max(1, float64(n[0]+n[1]))-share)
}

func percent(n, of int) float64 {
	if of == 0 {
		return 100
	}
	return 100 * float64(n) / float64(of)
}

// pcapHeader is the length of a capture without packets.
const pcapHeader = 24

// internal are the captured bytes of packets with internal locators.
func (v *seen) internal() (n int) {
	for _, size := range v.captured {
		n += int(size) - pcapHeader
	}
	return n
}

// expiry is what changes in a list of routes by itself.
var expiry = regexp.MustCompile(` expires \d+sec`)

// difference counts the lines that only one of two lists of routes has.
func difference(a, b string) (n int) {
	lines := make(map[string]int)
	for i, list := range []string{a, b} {
		for l := range strings.SplitSeq(expiry.ReplaceAllString(list, ""), "\n") {
			lines[l] += 1 - 2*i
		}
	}
	for _, d := range lines {
		n += max(d, -d)
	}
	return n
}

var (
	pinged = regexp.MustCompile(`(\d+) packets transmitted, (\d+) received`)
	timed  = regexp.MustCompile(`time=([0-9.]+) ms`)
)

// echoes reads what ping printed: requests, how many were not answered, and the round-trip
// times in ms.
func echoes(out string) (sent, lost int, rtts []float64, err error) {
	m := pinged.FindStringSubmatch(out)
	if m == nil {
		return 0, 0, nil, fmt.Errorf("ping printed no summary: %q", strings.TrimSpace(out))
	}
	sent, _ = strconv.Atoi(m[1]) // digits
	received, _ := strconv.Atoi(m[2])
	for _, t := range timed.FindAllStringSubmatch(out, -1) {
		ms, err := strconv.ParseFloat(t[1], 64)
		if err != nil {
			return 0, 0, nil, fmt.Errorf("ping printed a time of %q: %w", t[1], err)
		}
		rtts = append(rtts, ms)
	}
	return sent, sent - received, rtts, nil
}
