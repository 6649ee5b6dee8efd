package physical

// TellsLess has s treat its file system as one on which not every move of a file
// shows in its time of change.
func (s *Store) TellsLess() { s.host.(*kernelHost).tells = false }
