package config

import "strings"

// didYouMean suggests the known name that name was probably meant to be, or returns "".
func didYouMean(name string, known []string) string {
	plain := strings.NewReplacer("-", "", "_", "")
	best, at := "", 3
	for _, k := range known {
		if strings.EqualFold(plain.Replace(name), k) {
			return " (did you mean " + k + "?)"
		}
		// Of three letters one may be wrong, of two none.
		if d := distance(name, k); d < at && d <= len(k)/3 {
			best, at = k, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}

// distance returns how many bytes must be inserted, removed, replaced or swapped with
// the next one to turn a into b. It returns a larger number if a is far longer.
func distance(a, b string) int {
	if len(a) > 2*len(b) {
		return len(a)
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
