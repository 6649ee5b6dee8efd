package policy

import (
	"capd/operator"
	"capd/vfs/membrane"
)

// Default is what a kind of subject gets in a kind of root. What a grant gives beyond it has to
// be said with the grant.
type Default struct {
	Most  membrane.Rights // the rights that a grant may have
	Usual membrane.Rights // those of a grant that names none; link is not among them
	Named bool            // only a grant that names the root gives anything there
}

const (
	all   = membrane.EveryRight
	looks = membrane.Read | membrane.List | membrane.Watch | membrane.Metadata
	views = membrane.Read | membrane.List | membrane.Metadata
	adds  = looks | membrane.Write
	takes = views | membrane.Write
)

// columns are the kinds of subjects of a line of defaults.
var columns = [...]string{operator.Core, operator.Person, operator.AgentRun, operator.Extension, operator.Automation}

// defaults has the most that each kind of subject gets in each kind of root.
var defaults = map[string][len(columns)]membrane.Rights{
	//                          core person agent-run extension automation
	operator.Workspace:        {all, all, all, views, views},
	operator.ExtensionStorage: {all, all, 0, all, 0},
	operator.Artifact:         {all, all, adds, adds, adds},
	operator.Temp:             {all, all, all, all, all},
	operator.Knowledge:        {all, all, looks, looks, looks},
	operator.Downloads:        {all, all, takes, takes, takes},
	operator.Secret:           {all, all, all, all, all},
}

// Defaults returns what a kind of subject gets in a kind of root. It is nothing for kinds
// that do not exist.
func Defaults(root, subject string) Default {
	var d Default
	for i, kind := range columns {
		if kind == subject {
			d.Most = defaults[root][i]
		}
	}
	d.Usual = d.Most &^ membrane.Link
	if root == operator.Secret && subject != operator.Core {
		d.Usual &^= membrane.List
		d.Named = subject != operator.Person
	}
	return d
}
