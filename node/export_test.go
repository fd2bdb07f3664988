package node

// ParseListCursor and ListCursor are the text of a place in a list, for the fuzz test.
var ParseListCursor = func(order Order, s string) (text string, err error) {
	c, err := parseListCursor(order, s)
	return c.String(), err
}

// ListCursor makes the text.
func ListCursor(order Order, key, nodeID string) string {
	return listCursor{Order: order, Key: key, ID: nodeID}.String()
}
