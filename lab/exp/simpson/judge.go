package simpson

import (
	"math"
	"strings"

	"roam/lab/result"
	"roam/lab/stats"
)

// judge sets the metrics of the claims about Roam's borders.
func judge(r *result.Result, all []*seen) {
	var echoes, echoesLost, datagrams, datagramsLost, changed, internal int
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
		internal += v.internal
	}
	var delays, lost []float64
	for _, v := range all {
		delays, lost = append(delays, v.added...), append(lost, v.lost...)
	}
	r.Set("updates_passed", float64(len(delays)))
	r.Set("update_added_median_ms", stats.Median(delays))
	r.Set("update_added_p99_ms", stats.Quantile(delays, 0.99))
	r.Set("link_lost_to_update_ms", stats.Quantile(lost, 1))
	r.Set("least_packets", least)
	r.Set("stray_packets", float64(strays))
	r.Set("echoes_lost_pct", percent(echoesLost, echoes))
	r.Set("datagrams_lost_pct", percent(datagramsLost, datagrams))
	r.Set("routes_changed", float64(changed))
	r.Set("internal_bytes", float64(internal))
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

// difference counts the lines that only one of two lists has.
func difference(a, b string) (n int) {
	lines := make(map[string]int)
	for _, l := range strings.Split(a, "\n") {
		lines[l]++
	}
	for _, l := range strings.Split(b, "\n") {
		lines[l]--
	}
	for _, d := range lines {
		n += max(d, -d)
	}
	return n
}
