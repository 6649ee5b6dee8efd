package main

import (
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// rights is a flag with a list of rights; 0 means that it was not given.
type rights membrane.Rights

// UnmarshalText reads RIGHT,RIGHT.
func (r *rights) UnmarshalText(text []byte) error {
	got, err := membrane.ParseRights(string(text))
	if err == nil && got == 0 {
		err = vfs.Errorf(vfs.Invalid, "a capability without any right is of no use; name some")
	}
	if err != nil {
		return usageError{vfs.Message(err)}
	}
	*r = rights(got)
	return nil
}

// mayDo says what a grant may do: its mode, if that says it all, or its rights.
func mayDo(g operator.Grant) string {
	switch g.Rights {
	case 0, membrane.AllRights, membrane.AllRights &^ membrane.ChangeRights: // 0: of a host that knows no rights
		return string(g.Mode)
	}
	return g.Rights.String()
}
