// In attention/registers.wgsl: WORD is word C of slot I's key, or value, at AT.

//#param X: word // k or v
//#param AT: wgsl
//#param I: u32
//#param C: u32

//#let L = C / LANES
//#let LANE = C % LANES
//#let WORD = BROADCASTS ? "subgroupBroadcast(X_lanes_I_L, LANE)" : "X_at(AT + C)"
