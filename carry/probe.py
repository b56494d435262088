import subprocess,time,statistics,glob
subprocess.run(["g++","-O2","-o","/tmp/probe","carry/probe.cpp","-ldl","-lpthread"],check=True)
def run(c):
    s=time.perf_counter(); subprocess.run(c,stdout=subprocess.DEVNULL); return 1000*(time.perf_counter()-s)
cmds={"true":["/bin/true"],"smi":["nvidia-smi","-L"]}
for m in ("-","S","f","u","p","e","r","uper","P","k","fP","fuper"): cmds["probe "+m]=["/tmp/probe",m]
res={k:[] for k in cmds}
for i in range(25):
    for k,c in cmds.items(): res[k].append(run(c))
for k,r in res.items(): print(f"{k:14s} median {statistics.median(r):7.2f} min {min(r):7.2f}")
subprocess.run(["/tmp/probe","kv"])
for p in glob.glob("/sys/bus/pci/devices/*"):
    try:
        if open(p+"/vendor").read().strip()=="0x10de": print(p,open(p+"/local_cpulist").read().strip(),open(p+"/numa_node").read().strip())
    except OSError as e: print(e)
