// Package house reads the source tree and says where it breaks the rules that
// the project set itself: purity of the upper floors, imports that go down
// only, one door to each module, documentation, budgets of size, the written
// list of maps.
//
// A rule is a function from a Tree to Findings; Rules lists them. The tests
// run every rule on the repository, and on small trees that break it. The
// scorecard command prints the measures that have no stop.
//
// It omits what a compiler or vet already says, and it never runs the code
// that it reads.
package house
