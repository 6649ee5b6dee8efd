package git

import "strings"

// git fsck refuses every name that some filesystem takes for .git. HFS+ ignores
// invisible characters. NTFS ignores dots and spaces at the end, and has short names.

// isDotGit reports whether some filesystem takes name for .git.
func isDotGit(name string) bool {
	if len(name) == 0 || name[0] != '.' && name[0] != 'g' && name[0] != 'G' && name[0] < 0x80 {
		return false
	}
	if hfs(name) == ".git" {
		return true
	}
	for part := range strings.SplitSeq(name, "\\") { // a separator on NTFS
		if p := ntfs(part); p == ".git" || p == "git~1" {
			return true
		}
	}
	return false
}

// isDot reports whether some filesystem takes name for dotName, such as ".gitmodules".
// short is the beginning of dotName's hashed NTFS short name.
func isDot(name, dotName, short string) bool {
	if hfs(name) == dotName {
		return true
	}
	n := ntfs(name)
	if n == dotName {
		return true
	}
	stem, number, ok := strings.Cut(n, "~")
	if !ok || number == "" || strings.Trim(number, "0123456789") != "" || number[0] == '0' {
		return false
	}
	if stem == dotName[1:7] {
		return len(number) == 1 && number[0] <= '4'
	}
	return stem != "" && len(stem) <= 6 && len(stem)+1+len(number) == 8 && strings.HasPrefix(short, stem)
}

func isModules(name string) bool    { return isDot(name, ".gitmodules", "gi7eba") }
func isAttributes(name string) bool { return isDot(name, ".gitattributes", "gi7d29") }

// hfs returns name as HFS+ compares it, as far as git's names need it.
func hfs(name string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, name))
}

// ntfs returns name as NTFS compares it, as far as git's names need it.
func ntfs(name string) string {
	name, _, _ = strings.Cut(name, ":")
	return strings.ToLower(strings.TrimRight(name, ". "))
}
