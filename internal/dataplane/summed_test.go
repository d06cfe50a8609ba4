package dataplane

import (
	"os"
	"testing"

	"roam/internal/testutil"
)

// What ChecksumState reads of the kernel's types is there for the programs that are loaded next, and for them alone.
func TestKernelTypesAreTakenOnce(t *testing.T) {
	_, err := os.Stat("/sys/kernel/btf/vmlinux")
	testutil.NeedKernel(t, "CONFIG_DEBUG_INFO_BTF", err == nil)
	_, err = findChecksumState()
	read := kernelTypes.Load()
	if got := takeKernelTypes(); read == nil || got != read {
		t.Errorf("programs do not get the types that were read (%v)", err)
	}
	if takeKernelTypes() == read || kernelTypes.Load() != nil {
		t.Error("the types are kept")
	}
}
