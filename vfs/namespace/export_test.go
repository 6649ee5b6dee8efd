package namespace

// Mount describes one mount.
type Mount struct {
	Path     string // "" for the root
	ReadOnly bool
	NoLinks  bool
	Shut     bool // it is being unmounted, and changes that had begun have not ended
}

// Mounts returns what is mounted in n, in byte order of paths.
func Mounts(n *Namespace) []Mount {
	var all []Mount
	for _, m := range n.table.Load().all {
		all = append(all, Mount{Path: m.path, ReadOnly: m.o.ReadOnly, NoLinks: m.o.NoLinks, Shut: m.shut.Load()})
	}
	return all
}
