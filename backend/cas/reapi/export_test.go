package reapi

import "time"

func init() { firstPause = time.Millisecond }
