"""GPU kernels that cannot be built, do not exist for the device, or refuse their input."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import Prints, RaisedUnder, Raises
from vllm_warden.core.diagnose.signature import Signature, Weight
from vllm_warden.core.model import Failure

_KERNEL = Failure.KERNEL_FAILURE

SIGNATURES = (
    Signature(
        id="kernel-not-for-device",
        failure=_KERNEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"(?:CUDA|HIP)(?: driver)? error: (?:invalid device function|the provided PTX was compiled"
                r"|device kernel image is invalid|named symbol not found|shared object initialization failed)"
                r"|hipErrorNoBinaryForGpu|CUDA_ERROR_(?:UNSUPPORTED_PTX_VERSION|INVALID_PTX|NO_BINARY_FOR_GPU)"
                r"|PTX JIT compilation failed|Unsupported (?:gpu|GPU) architecture|unsupported gpu architecture"
                r"|requires GPUs with sm\d{2,3}|No supported CUDA architectures found"
                r"|is not a recognized processor for this target|Value 'sm_\w{2,6}' is not defined"
            ),
        ),
        summary="A kernel was not built for this GPU, or the driver cannot load it.",
        caution="The GPU may be newer than the build, or the driver older.",
    ),
    Signature(
        id="kernel-build-tool-failed",
        failure=_KERNEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"^subprocess\.CalledProcessError: Command [^\n]{0,40}(?:ninja|nvcc|gcc|g\+\+|clang|hipcc|cmake|ptxas|/cc'|/c\+\+)"
                r"|[Nn]inja (?:build|is required)|Python\.h: No such file|cannot find -lcuda"
                r"|(?:nvcc|hipcc|ptxas) (?:fatal|not found)|CUDA_HOME environment variable is not set"
                r"|Could not find (?:the )?(?:nvcc|ninja|cuda|compiler)|\bnvrtc\b[^\n]{0,200}(?:rror|ailed)|NVRTC_ERROR"
                r"|Failed to find C compiler|`ptxas` (?:failed|stderr)|No such file or directory: '(?:/[^'\n]{1,100}/)?(?:ninja|nvcc|gcc|cc|ptxas)'"
            ),
        ),
        summary="The compiler that builds kernels at start failed or is missing.",
        caution="The compiler's own message, above, says more. Nothing ran out of memory.",
    ),
    Signature(
        id="kernel-compiler-said",
        failure=_KERNEL,
        detect=Prints(
            ("nvcc fatal", "ptxas fatal", "ninja: build stopped", "ptxas error"),
            levels=(None,),
        ),
        summary="A compiler for GPU kernels gave up.",
        caution="Some libraries try a build and go on without it: counts only with a death.",
        weight=Weight.RELAYED,
        in_company=True,
        likely=True,
    ),
    Signature(
        id="kernel-out-of-resources",
        failure=_KERNEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"out of resource: |too many resources requested for launch|invalid configuration argument"
                r"|Required: \d{1,9},? Hardware limit: \d"
            ),
        ),
        summary="A kernel asks for more registers or shared memory than one launch may have.",
        caution="Shared memory of the GPU's cores is meant, not the GPU's memory.",
    ),
    Signature(
        id="kernel-refused-input",
        failure=_KERNEL,
        detect=RaisedUnder(
            ("RuntimeError", "AcceleratorError", "AssertionError"),
            pattern=re.compile(
                r"CU(?:BLAS|DNN|TENSOR|SPARSE)_STATUS_(?:NOT_SUPPORTED|INVALID_VALUE|EXECUTION_FAILED|NOT_INITIALIZED|INTERNAL_ERROR|ARCH_MISMATCH|BAD_PARAM)"
                r"|(?:HIPBLAS|ROCBLAS|rocblas)_STATUS_\w{3,40}|[Cc]utlass[^\n]{0,120}(?:Error|error|failed|Failed)|CUTLASS[^\n]{0,80}(?:rror|ailed)"
                r"|Error Internal\b|FlashInfer Internal Error|BatchPrefill\w{0,60} failed|BatchDecode\w{0,60} failed"
                r"|TRTLLM|Failed to initialize the TMA descriptor|DG_HOST_ASSERT|deep_?gemm|Invalid thread config"
                r"|FlashMLA|FlashAttention (?:only supports|forward only supports)|Unsupported head[_ ](?:size|dim)"
                r"|AITER|aiter"
            ),
        ),
        summary="A kernel refused the shapes or types that it was given.",
        caution="Another kernel for the same operation (backend) may take them.",
    ),
    Signature(
        id="capture-broken",
        failure=_KERNEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"failed due to a previous error during capture|cudaErrorStreamCapture\w{2,20}"
                r"|(?:not permitted|unsupported) when stream is capturing"
            ),
        ),
        summary="Capturing a CUDA graph broke off.",
        caution="Follows from any failure during the capture, above all from a lack of memory.",
        weight=Weight.RELAYED,
        likely=True,
    ),
    Signature(
        id="graph-compiler-relayed",
        failure=_KERNEL,
        detect=Raises("BackendCompilerFailed", "raised:"),
        summary="The backend of torch.compile failed.",
        caution="Only says that it did: the exception that it names follows in the next line.",
        weight=Weight.RELAYED,
        likely=True,
    ),
    Signature(
        id="graph-compiler-failed",
        failure=_KERNEL,
        detect=Raises(
            "",
            "",
            re.compile(
                r"^(?:(?!torch\._dynamo\.exc\.BackendCompilerFailed)torch\._(?:inductor|dynamo|functorch)[\w.]{0,80}|triton\.[\w.]{1,80}|tvm\.[\w.]{1,80}|tilelang\.[\w.]{1,80})(?:Error|Exception|Failed|Unsupported|OutOfResources|Condition|Failure)\b"
                r"|^(?:[\w.]{0,80}\.)?(?:InductorError|LoweringException|CompilationError|CompileTimeAssertionFailure|TorchRuntimeError|InternalTorchDynamoError|SubprocException)\b"
                r"|PassManager::run failed|Triton Error \[(?:CUDA|HIP)\]: (?!out of memory)|Failed to compile with (?:inductor|triton)"
            ),
        ),
        summary="torch.compile or Triton could not compile a part of the model.",
        caution="A damaged compile cache looks the same; so does a compiler's own memory shortage.",
    ),
)
