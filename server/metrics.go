package server

import (
	"context"
	"maps"
	"slices"
	"time"

	"capd/database"
	"capd/meter"
	"capd/metrics"
	"capd/record"
	"capd/version"
	"capd/vfs"
)

// Metrics returns what the host measures of itself, for [metrics.Handler]. There are no names and no paths in it. It answers
// stale before the start and after the end.
func (s *Server) Metrics(ctx context.Context) (all []metrics.Metric, err error) {
	if s.phase() != serving {
		return nil, vfs.Errorf(vfs.Stale, "the host does not serve")
	}
	sum, err := s.authority.Summary()
	if err != nil {
		return nil, err
	}
	all = append(all,
		metrics.Metric{Name: "capd_info", Help: "The version of capd.", Type: metrics.Gauge, Samples: []metrics.Sample{{Label: "version", Is: version.Text(), Value: 1}}},
		metrics.One("capd_uptime_seconds", metrics.Gauge, "How long the host runs.", time.Since(sum.Since).Seconds()))
	rows, err := s.rowMetrics(ctx)
	if err != nil {
		return nil, err
	}
	all = append(append(all, rows...),
		metrics.One("capd_grants_resident", metrics.Gauge, "Grants and shares that are in memory, because somebody uses them or did lately.", float64(sum.Resident)),
		s.hookMetrics())
	all = append(all, s.meterMetrics()...)
	return append(append(all, s.stateMetrics()...), s.recordMetrics()...), nil
}

const (
	countGrants = "SELECT coalesce(ended, 'live'), count(*) FROM grants GROUP BY 1 ORDER BY 1"
	countAsks   = "SELECT count(*) FROM asks WHERE decision IS NULL"
)

// rowMetrics counts rows of the state.
func (s *Server) rowMetrics(ctx context.Context) (all []metrics.Metric, err error) {
	grants := metrics.Metric{Name: "capd_grants", Type: metrics.Gauge,
		Help: "Grants and shares that are kept: live, or how they ended. Some of those that ended long ago are not kept."}
	var pending float64
	err = s.db.Read(ctx, func(r *database.Rows) error {
		rows, err := r.Query(countGrants)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			sample := metrics.Sample{Label: "state"}
			if err := rows.Scan(&sample.Is, &sample.Value); err != nil {
				return err
			}
			grants.Samples = append(grants.Samples, sample)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return r.Row(countAsks).Scan(&pending)
	})
	return []metrics.Metric{grants, metrics.One("capd_asks_pending", metrics.Gauge, "Changes that wait for an approval.", pending)}, err
}

// hookMetrics counts the calls of hooks that have failed.
func (s *Server) hookMetrics() metrics.Metric {
	before, after := s.hooks.Failures()
	return metrics.Metric{Name: "capd_hook_failures_total", Type: metrics.Counter, Help: "Calls of hooks that have failed, before changes and after them; a denial is no failure.",
		Samples: []metrics.Sample{{Label: "when", Is: "before", Value: float64(before)}, {Label: "when", Is: "after", Value: float64(after)}}}
}

// meterMetrics are what all guests together hold.
func (s *Server) meterMetrics() []metrics.Metric {
	used := metrics.Metric{Name: "capd_used", Help: "What all guests together hold, by kind; docs/limits.md has the kinds.", Type: metrics.Gauge}
	limit := metrics.Metric{Name: "capd_limit", Help: "The most that all guests together may hold; a kind without a limit is not here.", Type: metrics.Gauge}
	refused := metrics.Metric{Name: "capd_limit_refused_total", Help: "Requests that the host's own limits refused.", Type: metrics.Counter}
	for _, u := range s.authority.Meters().All().Uses() {
		sample := metrics.Sample{Label: "kind", Is: u.Kind.String(), Value: float64(u.Used)}
		used.Samples = append(used.Samples, sample)
		sample.Value = float64(u.Refused)
		refused.Samples = append(refused.Samples, sample)
		if u.Limit != meter.NoLimit {
			sample.Value = float64(u.Limit)
			limit.Samples = append(limit.Samples, sample)
		}
	}
	return []metrics.Metric{used, limit, refused}
}

// stateMetrics are about the database.
func (s *Server) stateMetrics() []metrics.Metric {
	failed := 0.0
	if s.db.Failed() != nil {
		failed = 1
	}
	stats := s.db.Stats()
	return []metrics.Metric{
		metrics.One("capd_state_failed", metrics.Gauge, "1 if the state cannot be written until a restart, because its disk fails.", failed),
		metrics.Distribution("capd_state_commit_seconds", "How long it takes until a group of writes is on disk.", stats.Bounds, stats.Counts, stats.Sum),
	}
}

// recordMetrics are about the record, if there is one.
func (s *Server) recordMetrics() []metrics.Metric {
	if s.record == nil {
		return nil
	}
	stats := s.record.Stats()
	added := metrics.Metric{Name: "capd_record_added_total", Help: "Entries that were added to the record, by kind; docs/audit.md has the kinds.", Type: metrics.Counter}
	for k := range record.Kinds() {
		added.Samples = append(added.Samples, metrics.Sample{Label: "kind", Is: k.String(), Value: float64(stats.Added[k])})
	}
	denied := metrics.Metric{Name: "capd_denied_total", Help: "Calls of guests that were refused, by code; a code of \"\" is those that were too many to tell apart.", Type: metrics.Counter}
	for _, code := range slices.Sorted(maps.Keys(stats.Denied)) {
		denied.Samples = append(denied.Samples, metrics.Sample{Label: "code", Is: string(code), Value: float64(stats.Denied[code])})
	}
	return []metrics.Metric{
		metrics.One("capd_record_entries", metrics.Gauge, "Entries in the record.", float64(stats.Entries)),
		metrics.One("capd_record_bytes", metrics.Gauge, "The bytes of these entries.", float64(stats.Bytes)),
		metrics.One("capd_changes_open", metrics.Gauge, "Changes that were recorded before they were made, and have not ended.", float64(stats.Open)),
		added, denied,
	}
}
