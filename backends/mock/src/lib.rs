//! The mock backend of anydnn.
