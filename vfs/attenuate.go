package vfs

// The functions here derive a narrower view from a view: a node behind a
// membrane (see [Guarded]). They take over nothing: what they return is closed
// by itself. They answer unsupported for a node behind no membrane.

// ReadOnlyDir returns d without the right to change anything, nor anything
// below it. It is revoked with d.
func ReadOnlyDir(d Dir) (Dir, error) {
	v, err := viewOf[*dirView](d)
	if err != nil {
		return nil, err
	}
	return v.derived(v.base, v.mask|noWrite)
}

// ReadOnlyFile is as ReadOnlyDir.
func ReadOnlyFile(f File) (File, error) {
	v, err := viewOf[*fileView](f)
	if err != nil {
		return nil, err
	}
	return v.derived(v.base, v.mask|noWrite)
}

// RevocableDir returns d with a gate of its own, and the control of it.
func RevocableDir(d Dir) (Dir, *Control, error) {
	v, err := viewOf[*dirView](d)
	if err != nil {
		return nil, nil, err
	}
	c, err := v.control(DirKind)
	if err != nil {
		return nil, nil, err
	}
	r, err := v.derived(c.Gate, v.mask)
	if err != nil {
		c.Release()
		return nil, nil, err
	}
	c.dir, c.node = v.dir, v.inner.retain()
	return r, c, nil
}

// RevocableFile is as RevocableDir.
func RevocableFile(f File) (File, *Control, error) {
	v, err := viewOf[*fileView](f)
	if err != nil {
		return nil, nil, err
	}
	c, err := v.control(FileKind)
	if err != nil {
		return nil, nil, err
	}
	c.fixed = c.fixed || IsImmutable(v.file)
	r, err := v.derived(c.Gate, v.mask)
	if err != nil {
		c.Release()
		return nil, nil, err
	}
	return r, c, nil
}

// control returns the control of a new gate below v's. It counts as open, since
// the gate stays as long as it is held.
func (v *view) control(kind Kind) (*Control, error) {
	if err := v.world.open(v.path); err != nil {
		return nil, err
	}
	g, err := v.base.derive(v.path)
	if err != nil {
		v.world.close(v.path, len(v.world.ledgers))
		return nil, err
	}
	return &Control{Gate: g, Kind: kind, world: v.world, path: v.path, rules: v.rules, fixed: v.mask&noWrite != 0, counted: true}, nil
}

func viewOf[V interface {
	comparable
	check(mode) error
}](n Node) (V, error) {
	v, ok := n.(V)
	if !ok {
		return v, Errorf(Unsupported, "only a node behind a membrane can be narrowed; guard it first")
	}
	return v, v.check(0)
}

func (v *dirView) derived(base *Gate, m mode) (Dir, error) {
	d := &dirView{dir: v.dir}
	if err := v.deriveAt(&d.view, v.inner.retain(), v.path, v.rules, base, m); err != nil {
		return nil, err
	}
	return d, nil
}

func (v *fileView) derived(base *Gate, m mode) (File, error) {
	f := &fileView{file: v.file}
	f.leaf = true
	if err := v.deriveAt(&f.view, v.inner.retain(), v.path, v.rules, base, m); err != nil {
		return nil, err
	}
	f.parent, f.dir = v.parent.retain(), v.dir
	return f, nil
}
