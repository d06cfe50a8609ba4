package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Binaries are the programs under test.
type Binaries struct {
	Roam, Roamd string // paths
}

// In names the programs that lie in a directory.
func In(dir string) Binaries {
	return Binaries{Roam: filepath.Join(dir, "roam"), Roamd: filepath.Join(dir, "roamd")}
}

// Build compiles the programs into a directory, for tests: it takes Go and the
// sources of the module that it is called in.
func Build(dir string) (Binaries, error) {
	build := exec.Command("go", "build", "-o", dir+"/", "roam/cmd/roam", "roam/cmd/roamd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return Binaries{}, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return In(dir), nil
}
