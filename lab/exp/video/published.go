package video

import "roam/lab/video"

// The published figures, by cell. Tears of Steel, live action, corresponds to the lab's
// clip of motion; Big Buck Bunny, animation, to that of detail.

// mobilityTuples are the PSNR tuples of ILNPv6 in Tab. 7.3a.
var mobilityTuples = tuples([3][3][2]string{
	{{"<0.999, 26.5, 4.01, 2/30>", "<1.00, N/A, N/A, 0/30>"}, {"<0.940, 20.5, 11.5, 19/30>", "<0.997, 32.3, 8.64, 5/30>"},
		{"<0.920, 13.7, 21.0, 30/30>", "<0.847, 15.5, 48.7, 30/30>"}},
	{{"<0.998, 21.9, 2.95, 2/30>", "<1.00, N/A, N/A, 0/30>"}, {"<0.971, 22.1, 3.22, 15/30>", "<0.998, 31.7, 8.52, 4/30>"},
		{"<0.857, 13.7, 24.7, 29/30>", "<0.930, 17.2, 32.5, 30/30>"}},
	{{"<1.00, N/A, N/A, 0/30>", "<0.981, 8.70, 57.1, 1/30>"}, {"<0.970, 20.9, 9.31, 12/30>", "<0.995, 31.1, 7.84, 8/30>"},
		{"<0.695, 10.4, 24.3, 30/30>", "<0.933, 14.0, 48.5, 30/30>"}},
})

// dualityTuples are those of Tab. 7.5.
var dualityTuples = tuples([3][3][2]string{
	{{"<0.991, 26.5, 17.2, 8/30>", "<1.00, N/A, N/A, 0/30>"}, {"<0.930, 15.4, 8.84, 23/30>", "<0.991, 28.3, 7.00, 15/30>"},
		{"<0.846, 13.8, 24.6, 30/30>", "<0.929, 17.7, 44.7, 30/30>"}},
	{{"<0.996, 18.6, 11.8, 3/30>", "<1.00, N/A, N/A, 0/30>"}, {"<0.952, 19.0, 14.2, 21/30>", "<0.991, 28.6, 6.74, 15/30>"},
		{"<0.841, 14.1, 30.8, 29/30>", "<0.938, 15.5, 35.3, 27/30>"}},
	{{"<0.994, 28.1, 12.9, 3/30>", "<1.00, N/A, N/A, 0/30>"}, {"<0.947, 17.2, 4.96, 22/30>", "<0.994, 28.1, 6.42, 11/30>"},
		{"<0.861, 14.5, 25.5, 29/30>", "<0.935, 13.7, 49.1, 30/30>"}},
})

// tuples parses a table in its printed order: by round-trip time, then height, then Big
// Buck Bunny and Tears of Steel.
func tuples(table [3][3][2]string) map[cellName]string {
	out := map[cellName]string{}
	for i, rtt := range []int{0, 20, 200} {
		for j, height := range []int{720, 1080, 2160} {
			for k, clip := range []string{video.Detail, video.Motion} {
				out[cellName{rtt, height, clip}] = table[i][j][k]
			}
		}
	}
	return out
}

// The mean throughput at 0 ms in Mb/s, of ILNPv6 in Tab. 7.4 and Tab. 7.6, and of
// the reference in both.
var (
	mobilityMbps = throughputs([6]float64{2.01, 1.89, 3.72, 3.06, 15.8, 8.82})
	dualityMbps  = throughputs([6]float64{2.04, 1.93, 3.76, 3.13, 16.2, 8.98})
	staticMbps   = throughputs([6]float64{2.04, 1.93, 3.71, 3.13, 16.1, 8.99})
)

func throughputs(column [6]float64) map[cellName]float64 {
	out := map[cellName]float64{}
	for i, v := range column {
		out[cellName{0, []int{720, 1080, 2160}[i/2], []string{video.Motion, video.Detail}[i%2]}] = v
	}
	return out
}
