import sys, onnx, numpy as np, collections, warnings
warnings.simplefilter('ignore')
from onnx import shape_inference as si, numpy_helper as nh
from tests.random.calls import published
from tests.random.engines import Engines
from tests.random.models import drawn_source
import onnxruntime as ort
from opshift.passes.analysis.weightless import without_weights
ort.set_default_logger_severity(4)
corpus=published(); eng=Engines()
ex=collections.OrderedDict(); n=0; C=collections.Counter()
a,b=int(sys.argv[1]),int(sys.argv[2])
for seed in range(a,b):
    try: src=drawn_source(seed,eng,corpus)
    except Exception as e: continue
    if src is None: continue
    m=onnx.ModelProto(); m.CopyFrom(src.model)
    ok=True
    for i in m.graph.input:
        v=src.feeds.get(i.name)
        if isinstance(v,np.ndarray) and i.type.WhichOneof('value')=='tensor_type':
            i.type.tensor_type.shape.SetInParent(); del i.type.tensor_type.shape.dim[:]
            for s in v.shape: i.type.tensor_type.shape.dim.add().dim_value=s
    names=[o for nd in m.graph.node for o in nd.output if o]
    have={o.name for o in m.graph.output}
    for o in m.graph.output:
        if o.type.WhichOneof('value')=='tensor_type': o.type.tensor_type.ClearField('shape')
    del m.graph.value_info[:]
    r=onnx.ModelProto(); r.CopyFrom(m)
    for x in names:
        if x not in have: r.graph.output.add().name=x
    try:
        so=ort.SessionOptions(); so.graph_optimization_level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL; so.log_severity_level=4
        s=ort.InferenceSession(r.SerializeToString(),so)
        outs=dict(zip([o.name for o in r.graph.output],s.run(None,{k:v for k,v in src.feeds.items() if v is not None})))
    except Exception as e: continue
    # constants: feed small ints as initializers too
    for k,v in src.feeds.items():
        if isinstance(v,np.ndarray) and v.dtype in(np.int64,np.int32,np.float32) and v.size<40:
            if all(t.name!=k for t in m.graph.initializer): m.graph.initializer.append(nh.from_array(v,k))
    for way in ('plain','data'):
        try: g=si.infer_shapes(without_weights(m),data_prop=way=='data')
        except Exception: continue
        n+=1
        for v in (*g.graph.value_info,*g.graph.output):
            o=outs.get(v.name)
            if not isinstance(o,np.ndarray) or v.type.WhichOneof('value')!='tensor_type' or not v.type.tensor_type.HasField('shape'): continue
            sh=[d.dim_value if d.HasField('dim_value') else None for d in v.type.tensor_type.shape.dim]
            if len(sh)!=o.ndim or any(x is not None and x!=y for x,y in zip(sh,o.shape)):
                nd=next(nd for nd in m.graph.node if v.name in nd.output)
                op=(nd.domain,nd.op_type,[i.version for i in m.opset_import if i.domain in(nd.domain,'ai.onnx' if not nd.domain else nd.domain)][:1],way)
                C[str(op)]+=1
                if str(op) not in ex: ex[str(op)]=(seed,sh,o.shape,[(q.name,onnx.helper.get_attribute_value(q)) for q in nd.attribute if q.type!=5][:6]); print(op,ex[str(op)],flush=True)
                break
print(n,C)
