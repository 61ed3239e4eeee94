//! Makes the type and its methods from the table.

/// Rows of the table: documentation, name, parameters with the values that tests use, the name in notations, the formulas, and facts that
/// differ from [`Function::new`](super::function::Function::new).
macro_rules! functions {
    ($(
        #[doc = $doc:literal]
        $function:ident $({ $($parameter:ident: $example:expr),+ })? $name:literal {
            value: |$x:ident| $value:expr,
            slope: |$at:ident| $slope:expr $(; of_result: |$y:ident| $of_result:expr)?,
            $($fact:ident: $is:expr,)*
        }
    )+) => {
        /// A function of one element, computed in f32. [`Eltwise::reference`] is its definition.
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        #[expect(missing_docs, reason = "the parameters' meaning is the formula beside each function")]
        pub enum Eltwise {
            $(#[doc = $doc] $function $({ $($parameter: f32),+ })?,)+
        }

        impl Eltwise {
            /// Every function, in the order of names.
            pub const TABLE: &'static [Function] = &[$(
                Function {
                    $($fact: $is,)*
                    ..Function::new($name, Self::$function $({ $($parameter: $example),+ })?, &[$($(stringify!($parameter)),+)?])
                },
            )+];

            /// The function's name, parameters not included.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$function { .. } => $name,)+
                }
            }

            /// The definition, in f64. NaN in gives NaN out.
            #[inline]
            pub fn reference(self, x: f64) -> f64 {
                match self {
                    $(Self::$function $({ $($parameter),+ })? => {
                        $($(let $parameter = f64::from($parameter);)+)?
                        let $x = x;
                        $value
                    })+
                }
            }

            /// [`Eltwise::reference`] of each element, rounded once.
            pub fn apply(self, values: &mut [f32]) {
                match self {
                    $(Self::$function $({ $($parameter),+ })? => {
                        $($(let $parameter = f64::from($parameter);)+)?
                        for element in values {
                            let $x = f64::from(*element);
                            *element = ($value) as f32;
                        }
                    })+
                }
            }

            /// The definition of the derivative times an incoming gradient, in f64; `at` is the argument, or with `of_result` the function's
            /// value.
            ///
            /// At a kink the derivative is that of the side towards zero: rectifiers give nothing at zero, a clamp nothing at its ends.
            /// Functions without a [gradient of the result](Eltwise::has_gradient_of_result) ignore `of_result`.
            #[allow(unused_variables, reason = "not every slope depends on every parameter")]
            pub fn gradient(self, of_result: bool, at: f64, diff: f64) -> f64 {
                let derivative = match self {
                    $(Self::$function $({ $($parameter),+ })? => {
                        $($(let $parameter = f64::from($parameter);)+)?
                        $(if of_result {
                            let $y = at;
                            return $of_result * diff;
                        })?
                        let $at = at;
                        $slope
                    })+
                };
                derivative * diff
            }

            /// Whether [`Eltwise::gradient`] can work from the function's value.
            pub const fn has_gradient_of_result(self) -> bool {
                match self {
                    $(Self::$function { .. } => !<[&str]>::is_empty(&[$(stringify!($y))?]),)+
                }
            }

            /// The parameters in order.
            pub fn parameters(self) -> smallvec::SmallVec<[f32; 2]> {
                match self {
                    $(Self::$function $({ $($parameter),+ })? => smallvec::smallvec![$($($parameter),+)?],)+
                }
            }

            /// The same function with other parameters, which are asked for by name in order.
            ///
            /// # Errors
            /// That of `parameter`.
            pub fn with_parameters<E>(
                self,
                #[allow(unused_mut, unused_variables, reason = "some functions have no parameters")]
                mut parameter: impl FnMut(&'static str) -> std::result::Result<f32, E>,
            ) -> std::result::Result<Self, E> {
                Ok(match self {
                    $(Self::$function { .. } => Self::$function $({ $($parameter: parameter(stringify!($parameter))?),+ })?,)+
                })
            }
        }
    };
}
