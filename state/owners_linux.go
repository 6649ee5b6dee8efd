package state

import (
	"fmt"
	"os"
	"strings"
)

// outside reports whether uid stands for the users outside of this process's user namespace, such as the system's
// root in a sandbox. Nobody inside has that user's rights. See user_namespaces(7).
func outside(uid uint32) bool {
	table, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !mapped(string(table), uid)
}

// mapped reports whether a table of user ids has uid.
func mapped(table string, uid uint32) bool {
	for line := range strings.Lines(table) {
		var inside, parent, count uint64
		if n, err := fmt.Sscan(line, &inside, &parent, &count); n != 3 || err != nil {
			return true
		}
		if uint64(uid) >= inside && uint64(uid) < inside+count {
			return true
		}
	}
	return false
}
