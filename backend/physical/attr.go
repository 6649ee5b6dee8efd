package physical

import "os"

// attrOfFile describes an open file.
func attrOfFile(f *os.File) (attr, error) {
	fi, err := f.Stat()
	if err != nil {
		return attr{}, err
	}
	return attrOfInfo(fi), nil
}

func attrOfInfo(fi os.FileInfo) attr {
	a := attr{
		kind:   kindOf(fi.Mode()),
		size:   fi.Size(),
		perm:   fi.Mode().Perm(),
		setgid: fi.Mode()&os.ModeSetgid != 0,
		mtime:  fi.ModTime().UnixNano(),
		nlink:  1,
		fi:     fi,
	}
	a.fromSystem(fi.Sys())
	return a
}
