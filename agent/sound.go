package agent

import (
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxList is how many entries of one list go into an inventory. The server keeps as many.
const maxList = 1024

// sound makes a message that was read from the machine fit for a frame: every text in it printable, since one that isn't UTF-8, as the path of a mount may
// be, would keep the whole from being sent, and no list endless. It says whether something was left out.
func sound(m protoreflect.Message) (cut bool) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			list := v.List()
			if list.Len() > maxList {
				list.Truncate(maxList)
				cut = true
			}
			for i := range list.Len() {
				switch f.Kind() {
				case protoreflect.StringKind:
					list.Set(i, protoreflect.ValueOfString(printable(list.Get(i).String())))
				case protoreflect.MessageKind:
					cut = sound(list.Get(i).Message()) || cut
				default:
				}
			}
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(printable(v.String())))
		case f.Kind() == protoreflect.MessageKind:
			cut = sound(v.Message()) || cut
		}
		return true
	})
	return cut
}
