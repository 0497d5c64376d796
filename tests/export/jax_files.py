"""Files that `jax.export` of JAX 0.10.2 wrote, compressed: see tests/export/test_jax_file.py."""

import base64
import zlib


def read(name: str) -> bytes:
    return zlib.decompress(base64.b85decode("".join(_FILES[name].split())))


_FILES = {
    "sine": r"""
        c-pO&&2Jl35Wwg8?elv3vf3`o%C*dsiQM2UspEt+a-
        *c5p=qi%N<v$es2|%+>^2Vm!n+QQ)B^{QD#3vRi2nlhkKj-w4xA8&@;CGb2P&C)>vilVap?gkvomjI-
        p9Q4{Nx1yI0GfvguC!5+=Ml_j-HR<0xY2aG)%!M_z+H_?|oQ?_uvG)3&&vu5};rl-
        ~mbrWgDf6(j1WIC_x+_a4giPwZ5D{nL;^(LNH?i_1#FGqP)=LJQ~L2XPAb8v4ZmAuTBR?$CLq|)H7k758(cOmCNW
        Eta2Paz#1W}{&1alqgs1)1_SavbZeCQOQkO*lqV=(Dcv)Chx!@H&nOB5SZ1%+7&}nULEphzpZ`6))>xGJf&#2ufB
        A`iBk(q><>l+E?(X#D^z7smkSrt2B9v3pu#)LaHa9_k^i8s%a>L;Gho3BJE^U0I4UYeo5n2X5q?@L>k+isBVH(eH
        !ni?oOEuD#8heLkSkj&@+IhxO_C?0hCS_tm75Y`7t5i*;g^@9sFbS{>8)aEBM%b8e2+J`?XoWmglexT@nPn4bTHX
        (0Zl2}ylqSV_&I&?Xlo^FZafP#K`x+D4N;qXv=v>@T*^Ic&*sM-
        6I&lagpHsH6k>!+@b^53xiegU8i?bO`e$y`G2+>F^=1^VL9HN?xG0GfD457SaWSu05s{Ba_Q`ZPpm0xIjhVd-Vfp
        &>7s<9<gr8t4cu|lR2zI0Z@5z&_}hnmJM^lP-
        M@y6q;s12Ph+0i^3$F^z2*HK$ZQ@KS`aomo;Wa7NR?a}P5V$ov7`T5Z?XKuwZZNoNGrjs(bx!JB%gGwECx2p}PHA
        ?Mj8ES2GHLH90vSG8;@Jd^rAGnpeTdLHg?_s;XCG}RL?gw5ykhWi`m)+fu(ATrPQb`6{<)GcFOKZUoN|pLKSg3ln
        &60Nxb}GR*uI29TG~FHVu~P_IUfpjt{POtDZgbpm3V0I0$Yk3u`>wz3HOp?ZQQfOGTFvc>UxON+da~ZGxlOMXRDu
        c~sPAi)o7D;)UGC!!>;qowk?(r-lG|tp?pENt5361vBX_3my&*V#@9>GkbB4$K0v5X0cWzh~Ud*r%-r8H-
        hP+X)zIP}yyrNdw$Jd5$>0tx9wydV+;ik>@CSC+2Mmbv~-1W9TtI-
        C%L+|za9@`wYn(ZSw@%W!kNAh4K8b8JHw<x{%@mIq+@*CzQA{6a&CtB}hG+ukd{OTKGr(X5fmg}8};`jT0IfR=B@
        <s;sl`)R?;FqJv&S$aV?8_kg49Pyd%Rc(GXOb)2knA&f4|_a9-ahe+G)+r)7k5Uo54<D-
        @242E?5vZ)PDap;QehNW63JyJwUowEl5=S$SVm-67k4=}mM5yEZ-
        |LJ%jF40TvDOVpi`2sIL91&9vx?;13_n8v=?!BIgBq-dQ~S9XsbG1zab_>UKGT11hfcx?m@88eXf0jTw^A3Z4W`i
        ));cFO!YM70@O<!sirOIl1@l19jU~SYO@i|&P&Q^y22^%QtEeQ25)F|%);_gNT@L+6w=9j8$KPyqNAAAqtbuis5k
        gO(c^a4gvYP%aF7`NtwT^8+0uvlxk&hxYb&>I(~Y<7=jBencW(~Ze{_cT+LI{nc-
        TL(gA$-ZJhX<*`L*+U-<^u)%ilU9z{Big;Y$5pO@t98^bK+&5hf^MlC<|<8Gil+XqxAK
    """,
    "tree": r"""
        c-
        oCr&u<$=6n^8`*R``*ZLE#8Ub!nbGQqLh#7WZ#BJ2c|7Fv<2DFs1f!m^IHWZU%*d3QsRIQGi_z<~oo964}872?33
        &_n+KZd{QXy1ey{$)*U%*x$UF_r96;&CZV&0K5*L!YA+%ybpV@3pdI0CbY<V4OZa_EWxXA36gRhE<zdRVGd>?4-
        zo|J|^@CBf=xX;|wmcWYi2?BKwS=;tAm?;Wt7;IU(DU0KO)akz$yP<B)^X!r^Sm312P~W1>GTlF)UXuqygrK96H!
        &PakgC;Z9Ss~P)E%Hxul>xXlUTPHmG58ir)&xPWI^F39!cYl9Ry%#!N-
        @Une$39+LS=(4y1!f|{0^<soHQnG}*%j876-
        }!tnxYWIPg5$Bzpg2~HVGJtt}8k<n|hO>qH#mk48xH1nk?(N8D2%T$g#A%&Sgc_u!yJ?8IaYnWEl(%tHRK<sthYu
        Z4s?fUA7vRvAWD<b93KnuHgbTb#>p`cnxdIoSW7gGA`B(m09(w$qdHj?d|QF&hhqLmA`ezYEXU8x@;|5&1$j8ru&
        LFZcul+Wvsw*xk7`L8dy-Vfog%OLIJG?CxLQ7kx`W^I}Oe>se|k;@nz{2XUO*`p|rt?p_dF(vjE>-K(1oq-
        b5KM5Q)Ke(we4J%>_$GeFICHx!Bk&ma0WfDRv{z54`~#ANfP*4||dC!u@D)NP7XjVQ7Em4&1Th+s9X7?1s^JkOW#
        m*z*Qk@W6Sr5(REx2S?7xwMRq$i~evtI`V=(^l8GCLDaWL&N%c!Z#W1}ePegzdxuT{54_N}eW%~;Ine9Wo%%syy7
        hz3>H$1V!b`0*ywzxC^uW{$pF=B^y>*s75jS>&$PaCAaDNDCyHgJ+$Fv=$iTVzGfl<^YO^|QOSZB&Rx8D8WL$lr9
        Y45k&ot^eUn~5`>oZ-
        V!^pATvE8>6r8OJAtgg2k@&%KD_c|w_x@XNwqj?dn?rTBbz^=FzVnfn!S?O*1G!UkfVYa;d|jmrz!QysID?ge_^W
        UA9M`Gk1Cyhzuvm(ly{OM0Ki=X)b&Ct1=AX}<q|FM9D=t<yF96sK!1i?y@N_=mzK{l~=nHZunkxsvyJ4z$U8J|ou
        uZ{M*itRu8u5&S&W3bFE&c6zO+c~2;(1k$9P#Qr|5RQ>{rp7%Z
    """,
    "platforms": r"""
        c-nnbPj4GV6o0d`FPqI|wOwsZh|I`XZj_oPaZDPOC?-
        (;ghZrjON(gLqGcU#@K)>f%DY>F#0`#!14piW9X>#hd;_jX9L$@sP2JLTW`Fa3@88V4S<Q3+;63O;7aqd{xDR*Wg
        e;%HhtMJWb=Zatcn7XPgRDpJ7Q6|U;SwyvBADa{_=eCU^a%+en*%lWvldIB<hJ=7e{+BhlGh1L?SbTjDSje6GgTh
        fK0VO|66SQ3^5;L}F=<QYoK4A{xtw!a`_{={UpV)Qu$x3jC%1#A?XC9i);6#jGISXi+;RPtYOTS43|)59wOm)YZb
        P_2D7d1kKcATDyuRZ5LizMqs|kj}<)l_E%lOrhHLE6ftV-QM-{V+W-
        {h9(SHz0IipLnP;3`(7<S4Nw8*5nKw5@9UciFs#4WhpDP`28*wrTS!uFD$^Hs!vB*W?ElZZ;WX0mn~2clc+=vL)L
        NYuKFMb@;t6<&NByH{@OoZB;l4bq4E<*~~DSOf<RUc!(Cas<!!?f$T1KnPrX)&d|QYxn&+2+@mzN3f4y)Inrox#5
        Wiz%%L!DGO|o0&h&}jw*POZDY%%}ahiu}KBYLcZQD6~-zLtL-6LHb?#=1uE_W9wi@`4o`*ia4dh_^LuKVck<LX*-
        &#QRes#kG^*Dd3uh*NmlPlhlU_R1uJQB;(plzujxhIyprFwKiFEfha1(^Dn$I3?e^<eRZhUi9Mh0G@>BTV)>QLEa
        CuD9DD%_k-am>&N*32DHvrS`LCN92Id9)5OnhqbN&aS`(hcMGz$6pxX=KTxnN36YZec%95}+8;%A+oc5w~m^t7(=
        uGy1@KOS8zW1W(6#=d8C`?cLK|7%OT2#?%VzzY*)vYW2HW_xqB$yo$1TSq+#f+l7ObRlb4PnAz5Yif1*`<PEu`Y0
        jiH~pH{^}ur#J}b@>FUATgv-;rsc>4-
        Y3SQdJS(*<NWSWRAC1T38NWZrpN%iR_diVIE)kZg1HE1rENFI7&L5PsI9b{-
        XxNzMtG8?!gpOX)GwG&Zt3~ZGwQZKmrrgwh!vFiT)cyqzQseL
    """,
    "key": r"""
        c-nPT-EQ1e5T4obiQ}AD?#isT(PAypvQ4ctNkfT3)NP;?N>Nia{S#FDINsRpy4c>uKcPW901_A6atSwFbHN1{JOS
        bXxZoXlflA99?=IaUb<Td8IrGiTIUeu02LNxu5qu6G!+kh}1GvGScc91KH{l{&fb(z;UIQiX!K-
        i<UV$^P42z&~1i+_^BSyd&FycA<SY<6$`d5069~i$deq$hWzq9^(if4>NP32L=DVf(ex1ULk@j64L9X%V5IYQT_a
        Wnk}<C_WB(*9qU&%AZ;&t3Cg;rHY4#=&jxWP5XaXY(SUtD`V%6qZe**%GqdSzF(t@4N<H(=BPKUq@O}N}CspC0mx
        Vm}!x2HEq#k)~dL+g@(<HFm1)?wV!Kk$F;<Yvv;{JglIWy*jV2t-
        EK6E6+<|60?`($qC?bP6<wlESF9llSFAf5TVi8F=(hRLxwIp;HUv3_6x)p}mh<*iafvCX`#>O?yYvA{L?pUtV#gx
        7W753`&W^L|>^Ya)rlH!<u49V~9SyA2aH-~!A-gWhIvHfRgtnvoB<K#-
        xv}398saKCWE`T<wJ*tPlWhVnn1qD#UDC<auX7@whzmL!x_Moftc9hv!jN^1$Xp;42!Dtx+{0D7YYT_FyV7;{n)Q
        a|uGC#=?MkEGFQd4KQpkf-
        I2pu4DAO$T<LK)!@Q#P+Ntor)F!hf8yntjFlyL}2m=7Qy_*oF8k5y1!WPX$u@Tg3W`PD+@^3y`u{cPw5D%*=vFNh
        N5^MgRCEG)__RaP%AxYj;|$*4H>s`^j-r<-LS<{lq33cb-VK23(%Xb|NIBz(`!v`oB_pA}KT_sgIAvTzhfd>}lD3
        eSuEq#yW@SN}W}QWf`~hB<tpBF^_F5&JHD1-
        ;1w?!QQE@pWOgtL~MBc^Rt*dNhQI4GA{@MrEImhQ&2g?4r0P<%hR!fAo+(q4(*txq0Dnfa6j5!i>$h`{VI=W*^Pj
        e~n*0ci&Fq&M=mF0e?MoSg5S|dHj>(7N;YvX8OW3M}0$<K~`0ls_aUtw8e_iD&H&@r?ytDiTz)HSpEf>CDoA
    """,
    "unused": r"""
        c-
        nnaOK;Oa5T4C?>o^<ZT5gm^sTHaa+Nf#Ls#H)BT3&@Bf+&Rpl@PA;sOsW4QDT>eIPf$0DI7R(<iJnh$blQz9xBYN
        lh76@BYm02H#;*M?^FTc3hcmhcnVKo6Kb%5k?T;!=p|Ty63oIyI1fT@!xT)y1dKxx;viuLz%#@S!bNluZ%^Q3bSe
        ?)33`mf7{EB{Nd!Tzgt|7w2gH;l&e4b)Sf_;yLH~%21k1w(geddrC=8K3Ck=B(dI|A$z$O00kzt(;{CQCOv86ut?
        Yi6As6Dg}7R!sv<pm%nBTOZfQ?425Y>syB>ttEx8cLpPoC|0?t8oKkJWJEUH!#lA8ev?csv&D>Lyje4Ii~BBnWmD
        ;70kJLDr>sIQj8fo0n}-
        hF|&kaF=IN<a>yI%wmDN|)AN+(SUy!z%*7>EKq9xaLg{6d<T<6+RJwM<oH2{$oH?IU*t@lyN{B*Yu_9GvRwOburL
        0JaW=by@c|=qqOWTw%x=E-kty9IIJOk{e%%~#Y;WDOEWsFmXSLc#U<uObquq9PAu1y;SgPAN-
        D6Z%!t(eg@uGa&{^&Jlm_S_D%JI%mt!EWF+@Lz;R$LssH=L@^u>)6eP-S;iWvzks@#O!8Ms9wttdY-VVeZT2=tFU
        jsDhK^m-|Fw#-
        ImquxUbutUU$#wx1o)V%3jd6x^~ZZd<T0R$9k=<>tGkycYMoo?RLFs!yDnvRtMf{5ne)dFzD)OqJs0l$ctv^wfcc
        8Cf@D9z=pPsm+c01Yy)vqVHLucSFYY#r+4YS(Hj%*w$Tm#deegY{xb{(KY>UNV@DW+FbpNcDDQoE_PZ{HgBqJB_T
        ck>^1p>=??Ez}A`UW)Mb=q)U$91exPD@9N{I2{{wIM)*@>u9B+-
        V)BSwm1qqAb}$rE=!#JWe~?jS|J$ou^bP<{bBY`$U
    """,
    "integers": r"""
        c-pm=OK%%h6vxl?o#V;$W|&$N<5=#MYnjlPJRFloZIq-XkkV95l$I7~)U?w{Jf)8O!XAfKLSlnpk3i~YVBG~DfCU
        Q{EcpQ4!=i#ptz^!OXX44jfeoYl=iWKzKIZ=I^K%vf;3AY^8@AvM+=d&lMv)bG4;CqY9%f(?-
        hsC$b{1CQ42;4EoQ7c-0)_Gb4@hNFmDD6Xj_6O)vpC)0l;57w`U27@=`4xS<0Q3ffu53Hcw>P3Iq!-
        =|2iCFk(?Lv-c}*~{#Un4S*`?Q!giMQqL({$T<#*B>i)hPs}za4F%EB&7vQ^e)Q_#ekI;*+BYF-
        !FTD1m($^W%dD4o~dxtyJJ|#UPjUai9Jujjja5#9yA}v40mvGKX#GjXc`yRY`oChN>2YWa3a<F$XzaN7Y+H8I8kB
        {_QuDxA#R@XMHz0!1PZh8h-
        78x3h3$7bxDwECgZ||nrvT6v!F!I6>f@FBNj3G>;*BXLngfN9ke>A`}7z%?YP1973tg4!7?7LVtnJ=K3;3#uEIm@
        |fBuq7_Vlu%1Q<%n#%rKNP%P@;MId%^7Q>dEu4{~A($EJ|yWJ%yTId=gIl*rA_%LRcG@-
        oLMoyj7{<>kD=@%o0&KUkL~y5E$ua!y{z>Kw93#xxd-
        6}WDa5+uP2Oe9c6L@lEgI7><8D`YpB&Qztw8S)#9tI8(VQ)r}x1bkmZuB&m{iZd-f&k?yQK3r0{#!*)^)I^-
        7F}SbJ8zPy^U0F9bP0TMW<i-l~iDV(2N+%4F*zQ!SZlw-
        ;kE#u*HOif;0}ng(9r_Glr%`XacHIs7drr&m);ct!S$*R5w_6Rnykoart5Ubhm6{i8Ic}#__j-
        $Mw_K@Tf?fOZbf@jKt@b0k=~&H1^+~PKYCfv8Yfz(&r|X@X)wEk~#jVhu{aDLsRx7kT>{eWhUd!6sZCbP%*sagnm
        R&DfjgD*WxNYlU)poti-
        O{}ilJDO0RvM42RDdsFv3KrEM{>p8z2<nK7@pm!IyHyvaGx|CSghK$?XrE$B)4VP+s#JX8TY3bie%W)QHP!LO=>x
        9GM6F`8_?_Dow*nG=wvmUKB{JCn@oWrsbP_cD_5`G`j~&pH^ch!YImpEIa2e(L4M^`x4TO6#*IYcTNHahDwCpYeD
        P{<?Vo-<xW0d*c|*bW(fxm>_%Ff!QO0bYu-4<(gBkPv3G;5hKKKr!LH?V5+<SyCBjXPH;!@7r-
        y0+7Ir=q>1@!zRHke@<Vwmt4rg;qGpKlm!Nj(U#fLtNOxJNF-gO~8xMJUUtYV3_z77b!nGOr~IMXu^b0!_q($1D?
        *n38FRX(<`eE2k2@2wT}H?$e2|m7}hyZ_3gv!Hg5ZE~q#r7c@MlGmcA3d5!ZcI=^~N7UYDSlEsiwf}|%9RZeVDY>
        !HUsI;+9r3E?~ij<K7jAw~QT#e5Wj~HsoJoSAH{iu}aXoOM|&8vuMA42KWe?ZW2*!jN@WA%!fevj*Z#fC-xZwxrZ
        kp8r=^!FnJ%KTtuClM!@xV-
        $q_4WRD`nb9dbEDl}&4%CEaeAI4h54VlC)7wVcP5BG?+&iDVSk4qP$BO32CeyP_h8*kdaMZkrx^y}k3QwE)UUxIK
        co1u=-ku604l$(0*c@F^84n~^$#nO>vI
    """,
    "symbolic": r"""
        c-n<k+iuiG82%@-6Jwl}vE0=XE!Ix7M8PH5O_U-UNWyUwB8Y$jqKG2byPjlCeX7UKp%kfCz3L0}A$rqi=w%<EcYT
        DaQg3<{e%lF2R8VL4^Ze)2cxRUZ;B)X`0AInE@Dv`w1C-
        o_o3M=X&tM*A;ZwK>9hBaK3veDjfpahcXP}09fUglAVuT0~$qC>hKb6~ADE15E#{k561V<2LFXDdp5DDV9!UkxmD
        +7IGhZB4a@z1{p2gseRosbo~d&1`j2C(_yuP^FPGItP&dk-EuI}6=~E8Te@GmNk%p&D)IX0z4q%v|m*(qG<Mq_1c
        ?u8yW_S^-
        ^a;TL7au4^WOE@`?}F}Td~*=`s1#Uf18>ExoWD7w;YnWnCc{YcxaWnG>#D6=fB(VnJ?ZkS3#VU|G%YqKfVv08*pv
        l(lu!|XY#nDrOdjLj}1*}3sEn``tmYhjV~3O<z9Rl*jm>x3;*dPA}+)*ZsGQqpdcI-&H5wM6Mg$Eee1&#mj$igm-
        fMVYfvr|!_YWA!_xwcf6)IH8+uMJ=Xf>O@trnhlLv_pPgp5|xaN*%S^AmueGDZP`S%um{Qvrr^`2OtUG`ZPFsOzZ
        rRq*_GO#=u96Gs?@fr)}kt~+k|1mYgZJiP-
        3htsdSPtYW8ofXc(ulM(UI?hOUGbp1M+dPU}rp*Cx?dHE3NOXS6|yw#LlDQmG@45mcq7Qf-_PM&Q@_CcQmwFdNTh
        YH`X^+UB&$EH*i9FBwL=IXAh~Y)l%uW(;ya$ovR)MnMc=?B#)gtvnjyy8**El9?N21)Yj4Pos*GBR3HR>Fq~u=nt
        Ji8oS=mm6_v5j^~GkF3d4*66_cBw#W*xh@>A!j`Y71RroM*(~8Vx7KhHz4T6$A+?QqM`Ozx8cK5ou6w;|OCvmVJ#
        %VJ0We6b_-
        i`9m!C0A}VFGz9OGOg+SQxzaGsg+saNxPHS8$h>D{j?>U0ALfUp=kpVGD4?!Rh+3B@k&Er%ouObdjq{bEOn%Q3N=
        <shcFibFg?v>?LuUIiZV_E}Fp^;&^acTQO8Ll)5AzV7;Zub`THTz&Sbt{3$1?zvE^CHlifYc$rUfFXmC4@zBkNBc
        6=}KOWBT$VMh&=x^a1io&|QzlVG#Jig-wx!|iSe1UJpDSzJ~DpJ3=BlwIv)8)^kA8nVhx8fj(cMI<SvdC-PO}FLC
        `B&Xi%~$v(ch>Imhl30o#pM6ZhCY}NE#J()<y&bSo(@?mPuF=W1rq#H>1@yPE`JmVR|+nL;G--{<h5SUi-
        )pX%+?b-JrVT+oTkir)#3Dx-
        >vQ_3xiI{&%Hm;x$?MWSpjw~xF@iaKz0GnJZ`Wa(H=g&|KcV6hK4Nu*2s7F`)~UFKHbz_iTj(|)K}Km*N^UIiWny
        O2k-KGc)=XePfyT)9DMwa|NhYK9AW}LSQ9AtXERYn{-
        DqA=yRq@JvN4q*+c*0e`^A?()w%}sa%CC(uJm0%8q==Azdp!75)BKgX<mA*q&G
    """,
    "sharded": r"""
        c-pO1&2Jl35TEDqc)i(JFRQIFk-KuE5E3g*+$af6+B9ui(hrf6ltQ86!`;~1W{cN0UOP=dh$4g#0)#jqao}%2NN`
        6&;?@HP4jd6jF5D5q%-dZjP87tYZ}szx=grrf-Tmzn04%^AcmrO67hwa|;3``#z!F>M;1ryM33wV#fLhPOad;Ar!
        4M2W8j|b*@EYR|qsrJ~)Ks(p_?GdvP*DS+{F(OgJ>wDM7e<;reoOI>7GZ($snP)<4Cf_|K+m3JocXKU9b|bd?n9-
        ky4zmG1-
        KRO_0U@h#)&xo8TLu`<x_H(@%$0?9mZGPZg+^~1mk2lm#BwyTmu=EW@k^TT0%rMhYr=~<xIr(L~I)hbM4Q1Ft+vA
        {N^#%RCp@>|B&;t*TCVk&oRF4+dG_lE|v>@_vlA%==$29FJx}Eoz0qib#1-
        8Ju^KsKYa>BQ4^$F0wtnFGM6umj!%~Ghc9x%)ubT}wWO4zh72!DU3r<0{>r>G^2(@GHlUefB`0%|Y^ki43NI97No
        Z0UWXhaoX*tVETuv73l}j|7y|zwyvZ+8ijo2?~_RF{JvV&UQE{u$h(Wps4W2P9PaZ?Z#5htf;60tNxQ-WqsBk4wF
        -b9m?#mreMnW*d1HU!ONS2f$bGDX_>)T;g5b(&?>%G|bZ+@$#_!f`rHi`iG%=XK>%ny0gNMbJ5-
        d!9hs#FCylNB&#Fz=jaI%`#wF5{M5nxcjDke$+&KFN5!YV6WJh>{a_pLDSW=BXOZ%i9*)wJ?bKn5Q(JFi^3?<h-
        v6WG!3qzW2T5g7LjD~ClWWru+Wm<q0n(f6j9$0q$R(^OdhTCKo?O%jV@X`YR2WP!NHVCWl<-
        d?k&t<hIl7A#k+hbWe&^~vcF&(BImKtNTDDB+o@}O^G5Qy;W68ySuzU4W5q?wAj6c|;i8!x=6k7|n;oy#_UaH+cV
        T<0)&Rdz?bKZG-CzqUje5{_>TQ0KpyjqZt-8|gcIp)+H(L#-
        T5*DQ*{heUp08|vhqE<nyHP~7Q*o8%RI5rX1?{R=UxvElyZl}R-rFuL)f|7b>MX;3XJ@(-
        xIsDCa++?r*{JRMjaGBZ3w-
        dovFUopFE^c5+iQE=*1oOfHftWY0r$Ojxg4c~AbbgwOL!1x#|`+6WRHnn!D1=yFX;I20G6V2FCX+d6v3y1{irj2x
        |-iKci!Ry-
        V4vtas!?PkLGRzA{~5(2i@#!a=Vb8l(a6$l}6{CcR&0HKgLh+GyHs?2YUR{zj}Lf|8%=O?ozy;4rP+HX#e+a#Knq
        tA0Faq<=^AFfj+)I%-KDT`lEXkXQ#sWRG+P%w+G>g1AKZs<}Afm8*$HrVb@U)kCV@p{%iNYd9~TypWR?sHO-
        &HRDAyb=i5i!=v$!N67e@;XzxtMfiuM^SXVpA(AJ9;v7QXCNZ)%Ic>N1za4L=
    """,
    "shard_map": r"""
        c-pmBO>7&-6@J6F!_{g@tQPAHEifB~Wn_ubpJhi?Y|D0CIf$Luu~Rp81lwJ&$hAd@f8mm{-
        JiH_QKUa8iZ)1#0!5KS4gu0*4?g6O+=?RYp(i5<TC}H}(pu_4%7uNiT#Bn7Du$IV`8c!l-
        n@Bl_RaTkrvczu$ip05fmh+1a30Rk$VvDbOw;%?updU?X?Tjpo`h5IIP8Tz&<8Q-0g3bg*GTdt^CU%*D#;%iKu-k
        V`y?Or(g5`O?TFTqK9V7l`y@SN@qQn`CxP_n09SM|4}n|(x$)c00)g&r5{cySf11r0wR=dWNunY)cd3wb0WJo*wz
        Mx6%zc6MQZTmnL9<C=z!1rZzdry^lfEaIizK;fW4#T>C<X1UpcQle7K-cCrno-
        )g1G(_#I@P?``g6$*ImTe9^bRP)$hIskM39Ko(goU6d!4NH|H}U)_t(O?pa^1!ME0{Q|w^4I)`8%)h75=yR|;A1U
        1^O&pOFHavY<;&O}<ZDcVnXM?N6APx9kvD~J6uz<H89$vY&U${TAl5_)Fgx@?b${vU#z{=VG37Cv9zxfVWK-
        o6(8w6gV?eZ2hW&+G>)-OthQS9Xr^S1X-!bnU-e<EpLfzDDnD<M+=iUrvqwZl!yT-dpKjqwQz^IxTwk%)h@8zfgD
        Pited1=j^44v5CpC{lErf#ubfm%|JPkOmUtW#P{x)?2@d~rO}m9HUDGKM@y=$J55dcUqjrZnMfF#kr3A0RJE3!s<
        OCd$aKpULpBnTB}{RXC%CG})+94$PFv^V*2@=AHWU3xE5-
        YD8F*4>X>RF^^AzI1AWtJ^hk1tKDDrVWagY!2L0w7ntaa!JA2yH1t>Y*7=qSp=6aTcHd!CO|*KpplUOdYuMiGbkK
        |X1{!uV8NL7UN!!#G}Lm`JOPF%@%+DG8?GC5BwXS?dsDC60@iG6rHJ&TrmcoVAWvN3G-
        52^NVYk#m(PEFvY5VxTEX7So!Janz+ZIljycCQEmbDf|S>pn9HhS<0beU{VDZRS}WN7pG*To-Fm#56U_yl8%f;HP
        n&EB@N{$GS1-R=!~YC>7<#+7~GgWLOYsD4`dH<-PE-
        ~Rhv>3eXda`)(d6u^0#4WzF2`qx#l{>!nfVLovW0W+?rRYl<l13)uB|$H;OKlTyGvqPPyR}$)r?m)SWunK+UZ;YG
        t_IDCej=f?Ls>_UidU`52Ywf^%!E;klme%{x`su2zb-OO;x6zTlOhM5~XL8zsBy)anJ{(d&%W+-
        k8vLBK+xZqo|((n8fHZ{YbADa`z^oLjC3WvAqVM=5|)yW!bRId4}Qbvsx0?CV9RF6LdHxGG!?g<NIF>ouqBRV$u5
        w6Ihi%4WwY%39toIaQc0I;FY1a|~|6bZZ-qZJ7`2=7&37v9V+RU7>u#&%fq+jbhy{l&@Ey)xW&|D(xpdglc1svV@
        +D!e<!2EUTs0yzhKZc5f6qXS03&VH=$K^=b>J%B$V+_@}EoW8Lek+vD-8Yg_SYVRd)-^lqSgX|1*9zP0Wc{q?n-
        <NoSe2cxCWx5oO|+M~ysr##!bPglF+<-5Ut2zPDW+cXx&;-
        R(fSbTD=yKiZ&<6HRK8_GKv_tPKQWETsqD|9OL!w0C%?dPTL7@rjwZ*(wT$qWvU<6nN8WQ(#7=RVG>TakV<(5p#*
        tcCXp%@BB>?BKojM1(Nk(0t4%=%;TY5jnsK+O34blh#$6z+bgwW}ZH0y`o!}X1QfKIh3tbIzwQe5)6>m30gA*g?s
        >Ubes<&66|LgP9mR@1?uxrVgP~r<K~PmKz|~@e**o30{`Q)#4CK#$NwpQ$hyq<5q?w{IdAaeR)SeK3jBnrDDgOYj
        DBtsDZIuonO3nugpg!{95h^HC~H`<W)OcE$2*Ie1maKP{AWMEQ?j13p0`e0FB&FK_1_IwbNHVYLg>-
        b#e+5)v~qhK1+x&rY$g|`34XD3G%%j!JZ(x31j{6eW&Y7(nPH6kEc2mYnL!N%kEnuWj>^ac%iI(SG)cjUrkHk-
        E7X#L_Cw{F{!BmUQ5SX2P?b1xVMk=BNG8fGO6ww5C8JGBFUe=A0@6t(J!K{=;-
        v{eOZ`MkDXvqX=KqhGI*iojD5qE?YRNZpuDx^soP2&GT~$4zo<e!asTG`Z{YzpmyG12mz+8e{+NAR^M6_<ZJqxwf
        W7EY-
        &MA7L6FAzK<YBQ34?|iT8EaVO7Z|Uo>fIl`@rz%|w~4jheCsz4!&xshTe$s|W_Qjy*4!EU4>UX29}B%J3ERy)@I-
        TW|JD1T^?ub8oXg(!J8cl-lfipgIDTQ@j;S}4$L3sO!Pype(NGNGSYq(lhWs8Uc_zs1WDr}-
        kFK@WZr@ApH@oxIcbhF<?DN-%`7>pTyp_lHJoZs@BR`FV_B00ShPd0n*W+s>e=N+ett=(qNc7ihny&u=J3j3+
    """,
}
