package authority

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"capd/operator"
	"capd/record"
	"capd/vfs"
)

// bindingOf returns the same for equal parts in the same order alone.
func bindingOf(parts []vfs.Part) vfs.Version {
	h := sha256.New()
	for _, p := range parts {
		exec := byte(0)
		if p.Exec {
			exec = 1
		}
		h.Write([]byte{byte(p.Kind), exec})
		h.Write(p.Version[:])
		if p.WasKind != vfs.Other {
			h.Write([]byte{byte(p.WasKind)})
			h.Write(p.Was[:])
		}
		for _, s := range []string{p.Path, p.Target} {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
			h.Write([]byte(s))
		}
	}
	return vfs.Version(h.Sum(nil))
}

// list shows an operator what a directory holds that is moved. A file alone has nothing to list.
func list(parts []vfs.Part) string {
	var all strings.Builder
	for i, p := range parts {
		if p.Path == "" {
			continue
		}
		line := listed(p)
		if all.Len()+len(line) > operator.MaxAskDiff/2 {
			fmt.Fprintf(&all, "and %d more\n", len(parts)-i)
			break
		}
		all.WriteString(line)
	}
	return all.String()
}

// changesOf returns the parts of a change as the record has them.
func changesOf(parts []vfs.Part) (all []record.Change) {
	for _, p := range parts {
		c := record.Change{Path: record.Path(p.Path)}
		c.WasKind, c.Was = stateText(p.WasKind, p.Was)
		c.Kind, c.Version = stateText(p.Kind, p.Version)
		all = append(all, c)
	}
	return all
}

// stateText returns what the record has of a node: the version of a file, or what else is there.
func stateText(k vfs.Kind, v vfs.Version) (kind, version string) {
	switch {
	case k == vfs.Other:
		return "", ""
	case k == vfs.FileKind && !v.IsZero():
		return "", v.String()
	}
	return k.String(), ""
}

func listed(p vfs.Part) string {
	path := vfs.Printable(p.Path)
	switch p.Kind {
	case vfs.Other:
		return path + ", removed\n"
	case vfs.DirKind:
		return path + "/\n"
	case vfs.LinkKind:
		return fmt.Sprintf("%s, a link to %s\n", path, vfs.Printable(p.Target))
	}
	text := fmt.Sprintf("%s, %d bytes", path, p.Size)
	if p.Exec {
		text += ", executable"
	}
	return text + "\n"
}
