package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"capd/vfs"
)

// Size is a number of bytes.
type Size int64

// units are the units of a size: powers of 1000, and powers of 1024 (IEC 80000-13).
var units = map[string]int64{
	"": 1, "B": 1,
	"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// ParseSize parses a whole decimal number, with or without a unit: 1024, 64MiB, 1GB. It
// answers invalid, also for a size beyond int64.
func ParseSize(s string) (Size, error) {
	unit := strings.TrimLeft(s, "0123456789")
	digits := s[:len(s)-len(unit)]
	factor, known := units[unit]
	if !known || digits == "" || len(digits) > 1 && digits[0] == '0' {
		return 0, vfs.Errorf(vfs.Invalid, "this is not a size%s; write a whole number of bytes, or a number with KB, MB, GB, TB, KiB, MiB, GiB or TiB directly after it, such as 64MiB", meant(digits, unit))
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/factor {
		return 0, vfs.Errorf(vfs.Invalid, "this size is too large; write one below 8388608TiB")
	}
	return Size(n * factor), nil
}

// meant returns the size that was probably meant if the unit has the wrong case, or "".
func meant(digits, unit string) string {
	for _, u := range []string{"KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"} {
		if digits != "" && len(digits) < 20 && strings.EqualFold(u, unit) {
			return " (did you mean " + digits + u + "?)"
		}
	}
	return ""
}

// String is the size for people, as 12 bytes or 1.5 MiB; ParseSize does not read it.
func (s Size) String() string {
	const units = "KMGT"
	if s < 1<<10 {
		return fmt.Sprintf("%d bytes", int64(s))
	}
	f, unit := float64(s), 0
	for f /= 1 << 10; f >= 1<<10 && unit < len(units)-1; unit++ {
		f /= 1 << 10
	}
	return fmt.Sprintf("%.1f %ciB", f, units[unit])
}

// UnmarshalText is [ParseSize].
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}
