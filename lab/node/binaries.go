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

// In names the programs that lie in a directory. Where roam is installed, roamd
// lies in the sbin beside its bin.
func In(dir string) Binaries {
	b := Binaries{Roam: filepath.Join(dir, "roam"), Roamd: filepath.Join(dir, "roamd")}
	if _, err := os.Stat(b.Roamd); err != nil {
		installed := filepath.Join(filepath.Dir(dir), "sbin", "roamd")
		if _, err := os.Stat(installed); err == nil {
			b.Roamd = installed
		}
	}
	return b
}

// Build compiles the programs into a directory, for tests. It needs Go and the sources of
// the module in the current directory.
func Build(dir string) (Binaries, error) {
	if err := compile(dir, "roam/cmd/roam", "roam/cmd/roamd"); err != nil {
		return Binaries{}, err
	}
	return In(dir), nil
}

// BuildLab compiles the lab's program into a directory, and returns its path.
func BuildLab(dir string) (string, error) {
	return filepath.Join(dir, "roam-lab"), compile(dir, "roam/cmd/roam-lab")
}

func compile(dir string, packages ...string) error {
	// Without what debuggers need, linking takes half as long.
	build := exec.Command("go", append([]string{"build", "-ldflags", "-s -w", "-o", dir + "/"}, packages...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}
