/* Hook(original, check): a callable that leaves no Python frame behind.
 *
 * check() is asked on every call. It returns None (the original is called) or an exception, which
 * is then raised from C: a traceback ends in the caller's own line, as where torch itself raises.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef struct {
    PyObject_HEAD
    PyObject *original;
    PyObject *check;
} Hook;

static int hook_init(Hook *self, PyObject *arguments, PyObject *keywords) {
    PyObject *original, *check;
    if (!PyArg_ParseTuple(arguments, "OO", &original, &check)) return -1;
    Py_INCREF(original);
    Py_INCREF(check);
    self->original = original;
    self->check = check;
    return 0;
}

static PyObject *hook_call(Hook *self, PyObject *arguments, PyObject *keywords) {
    PyObject *error = PyObject_CallObject(self->check, NULL);
    if (!error) return NULL;
    if (error != Py_None) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
        return NULL;
    }
    Py_DECREF(error);
    return PyObject_Call(self->original, arguments, keywords);
}

/* A method of torch.Tensor stays a method. */
static PyObject *hook_get(PyObject *self, PyObject *instance, PyObject *type) {
    if (!instance || instance == Py_None) {
        Py_INCREF(self);
        return self;
    }
    return PyMethod_New(self, instance);
}

static PyObject *hook_getattr(PyObject *self, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found) return found;
    PyErr_Clear();
    return PyObject_GetAttr(((Hook *)self)->original, name);
}

static PyTypeObject HookType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "hook.Hook", .tp_basicsize = sizeof(Hook),
    .tp_flags = Py_TPFLAGS_DEFAULT, .tp_new = PyType_GenericNew,
    .tp_init = (initproc)hook_init, .tp_call = (ternaryfunc)hook_call,
    .tp_descr_get = hook_get, .tp_getattro = hook_getattr,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "hook", NULL, -1, NULL};

PyMODINIT_FUNC PyInit_hook(void) {
    if (PyType_Ready(&HookType) < 0) return NULL;
    PyObject *made = PyModule_Create(&module);
    if (!made) return NULL;
    Py_INCREF(&HookType);
    if (PyModule_AddObject(made, "Hook", (PyObject *)&HookType) < 0) return NULL;
    return made;
}
