// Writes zeros into a blocked tensor's padding. The loops run over the padded dimensions; PADDING is true outside the logical ones.
__kernel void padding(PARAMS) {
    ENTER
    const idx item = (idx)get_global_id(0);
    if (item >= ITEMS) return;
    DECLARE_ROW(item)
    if (PADDING) ST_DST(OFF_DST, 1, (V)(0));
}
