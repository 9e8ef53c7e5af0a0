//! Where in a spec the value of a key belongs.

type Get<S, T> = dyn Fn(&S) -> Option<T>;
type Put<S, T> = dyn Fn(&mut S, T);

/// Where in a spec the value of a key belongs.
pub enum At<S, T> {
    /// A field of it. Without `get` where nothing is ever shown.
    Field { get: Option<fn(&S) -> T>, put: fn(&mut S, T) },
    /// `get` gives `None` where the spec is of a kind that has no such value.
    Computed { get: Box<Get<S, T>>, put: Box<Put<S, T>> },
}

impl<S, T> At<S, T> {
    pub fn new(get: impl Fn(&S) -> Option<T> + 'static, put: impl Fn(&mut S, T) + 'static) -> Self {
        At::Computed { get: Box::new(get), put: Box::new(put) }
    }

    pub fn get(&self, spec: &S) -> Option<T> {
        match self {
            At::Field { get, .. } => get.map(|get| get(spec)),
            At::Computed { get, .. } => get(spec),
        }
    }

    pub fn put(&self, spec: &mut S, value: T) {
        match self {
            At::Field { put, .. } => put(spec, value),
            At::Computed { put, .. } => put(spec, value),
        }
    }
}

impl<S: Clone + 'static> At<S, S> {
    /// The spec itself: a mapping of one key.
    pub fn whole() -> Self {
        At::new(|spec: &S| Some(spec.clone()), |spec, value| *spec = value)
    }
}

/// A field of the spec, or in parentheses what a function makes.
macro_rules! at {
    ($field:ident) => {
        $crate::grammar::at::At::Field {
            get: if $crate::grammar::codec::DESCRIBES { Some(|spec| spec.$field.clone()) } else { None },
            put: |spec, value| spec.$field = value,
        }
    };
    (($at:expr)) => {
        $at
    };
}
pub(super) use at;
